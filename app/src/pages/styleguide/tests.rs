use std::{collections::BTreeSet, fs, path::Path};

use super::tokens::COLOURS;
use crate::components::Icon;

fn source(directory: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join(directory);
    let mut text = String::new();
    for entry in fs::read_dir(root).expect("the sources are there") {
        let path = entry.expect("an entry").path();
        if path.extension().is_some_and(|ext| ext == "rs") {
            text += &fs::read_to_string(path).expect("a source");
        }
    }
    text
}

/// What pages use from `components`: a new one belongs into the guide.
#[test]
fn every_component_is_in_the_guide() {
    let (components, guide) = (source("src/components"), source("src/pages/styleguide"));
    let mut missing = Vec::new();
    for part in components.split("#[component]\npub fn ").skip(1) {
        let name = part.split(['(', '<']).next().expect("a name");
        // Some fetch what they show; the guide draws their views from samples, under their names.
        let is_shown = guide.contains(&format!("<{name}"))
            || guide
                .lines()
                .any(|line| line.contains("<Specimen title=") && line.contains(name));
        if !is_shown {
            missing.push(name.to_owned());
        }
    }
    assert!(missing.is_empty(), "not in the style guide: {missing:?}");
}

#[test]
fn every_colour_of_the_style_sheet_is_in_the_guide() {
    let sheet = include_str!("../../../../style/tailwind.css");
    let tokens: BTreeSet<&str> = sheet
        .lines()
        .filter_map(|line| line.trim().strip_prefix("--")?.split_once(": light-dark(#"))
        .map(|(name, _)| name)
        .collect();
    let shown: BTreeSet<&str> = COLOURS.iter().map(|(name, _)| *name).collect();
    assert_eq!(tokens, shown);
}

#[test]
fn every_icon_is_in_the_guide() {
    // The last one of the list in code has the highest number.
    for (n, icon) in Icon::ALL.into_iter().enumerate() {
        assert_eq!(icon as usize, n);
    }
    assert_eq!(
        Icon::ALL.len(),
        source("src/components/icons")
            .matches("\n    /// `")
            .count()
    );
}
