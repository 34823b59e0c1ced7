//! Two edits of one environment, merged input by input: what only one of them changed is taken, and what both changed to
//! different values is for its reader to decide. Pure.

use domain::timestamp::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use wire::console::FieldChange;

use super::{Draft, INTERNET_HOSTS};
use crate::api::is_at_or_below;

/// What a form became after somebody else saved meanwhile.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Merge {
    /// The revision that was merged in: the form's new base.
    pub revision: i64,
    /// The form: both edits, and where they clash the reader's own.
    pub merged: Draft,
    /// What is saved now.
    pub theirs: Draft,
    /// Fields that both changed to different values.
    pub clashes: Vec<Clash>,
    /// Fields that only the others changed: they are in the form now.
    pub taken: Vec<Taken>,
}

/// A field that both edits changed to different values.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Clash {
    /// The field's name for people.
    pub label: String,
    /// Its inputs: name, the reader's value, the other's.
    pub inputs: Vec<(String, String, String)>,
    /// The reader's value for people.
    pub mine: String,
    /// The other's value for people.
    pub theirs: String,
    /// Who saved it.
    pub by: Option<String>,
    /// When.
    pub at: Option<Timestamp>,
}

/// A field that only the others changed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Taken {
    /// The field's name for people.
    pub label: String,
    /// Who saved it.
    pub by: Option<String>,
}

/// Inputs that are one field, its name for people, and its path.
type Group = (&'static [&'static str], &'static str, &'static str);

const GROUPS: &[Group] = &[
    (&["name"], "Name", "name"),
    (&["description"], "Description", "description"),
    (&["internet", "rules"], "Internet access", "network_policy"),
    (&["privileged"], "Privileged Docker", "privileged"),
    (&["cpu", "memory", "accelerator"], "Size", "resources"),
    (&["placement"], "Placement", "resources.placement"),
    (
        &["life"],
        "Whole life of the sandbox",
        "resources.timeout_seconds",
    ),
    (&["disk"], "Workspace disk", "pvc_size_gi"),
    (&["idle_stop"], "Idle stop", "idle_stop_after_seconds"),
    (
        &["stopped_delete"],
        "Stopped workspace is kept",
        "stopped_delete_after_seconds",
    ),
    (&["computer_use"], "Computer use", "computer_use"),
    (&["http_port"], "HTTP port", "http_port"),
    (&["env_vars"], "Environment variables", "env_vars"),
    (&["mounts"], "Mounts", "mounts"),
    (&["metadata"], "Metadata", "metadata"),
    (&["script"], "Setup script", "setup.script"),
    (&["setup_timeout"], "Setup timeout", "setup.timeout_seconds"),
];

/// Inputs that nobody edits: they follow what is saved.
const FOLLOWING: &[&str] = &["template", "provider", "had_metadata"];

/// Merges `mine` and `theirs`, both made from `base`; `changes` says who made theirs.
pub fn merge(
    base: &Draft,
    mine: &Draft,
    theirs: &Draft,
    changes: &[FieldChange],
    revision: i64,
) -> Merge {
    let (base, mine, now) = (inputs(base), inputs(mine), inputs(theirs));
    let mut merged = mine.clone();
    let mut answer = Merge {
        revision,
        merged: Draft::default(),
        theirs: theirs.clone(),
        clashes: Vec::new(),
        taken: Vec::new(),
    };
    // Inputs that no group names (newer than this table) are fields of their own.
    let known = |name: &String| {
        FOLLOWING.contains(&name.as_str())
            || GROUPS.iter().any(|group| group.0.contains(&name.as_str()))
    };
    let others: Vec<(Vec<&str>, &str, &str)> = now
        .keys()
        .filter(|name| !known(name))
        .map(|name| (vec![name.as_str()], name.as_str(), name.as_str()))
        .collect();
    let groups = GROUPS
        .iter()
        .map(|(names, label, path)| (names.to_vec(), *label, *path))
        .chain(others);
    for (names, label, path) in groups {
        let changed_by_me = !same(&names, &base, &mine);
        let changed_by_them = !same(&names, &base, &now);
        if !changed_by_them || same(&names, &mine, &now) {
            continue;
        }
        let change = changes
            .iter()
            .find(|change| is_at_or_below(&change.field, path));
        if changed_by_me {
            answer.clashes.push(Clash {
                label: label.to_owned(),
                inputs: names
                    .iter()
                    .map(|name| ((*name).to_owned(), text(&mine, name), text(&now, name)))
                    .collect(),
                mine: shown(&names, &mine),
                theirs: shown(&names, &now),
                by: change.and_then(|change| change.by.clone()),
                at: change.and_then(|change| change.at),
            });
        } else {
            for name in names {
                merged.insert(name.to_owned(), text(&now, name).into());
            }
            answer.taken.push(Taken {
                label: label.to_owned(),
                by: change.and_then(|change| change.by.clone()),
            });
        }
    }
    for name in FOLLOWING {
        merged.insert((*name).to_owned(), text(&now, name).into());
    }
    answer.merged = serde_json::from_value(Value::Object(merged)).unwrap_or_default();
    answer
}

/// `fresh` for a form that holds `now` and held `sent` when it was asked for: fields that were typed in meanwhile stay, to
/// the letter.
#[must_use]
pub fn beside_typed(sent: &Draft, now: &Draft, fresh: &Draft) -> Draft {
    let (sent, typed, mut form) = (inputs(sent), inputs(now), inputs(fresh));
    let grouped = |name: &str| GROUPS.iter().any(|group| group.0.contains(&name));
    let others: Vec<Vec<String>> = form
        .keys()
        .filter(|name| !FOLLOWING.contains(&name.as_str()) && !grouped(name))
        .map(|name| vec![name.clone()])
        .collect();
    let groups = GROUPS
        .iter()
        .map(|group| group.0.iter().map(|name| (*name).to_owned()).collect());
    for names in groups.chain(others) {
        let is_typed = names
            .iter()
            .any(|name| text(&sent, name) != text(&typed, name));
        if is_typed {
            for name in names {
                let value = text(&typed, &name);
                form.insert(name, value.into());
            }
        }
    }
    serde_json::from_value(Value::Object(form)).unwrap_or_else(|_| now.clone())
}

fn inputs(draft: &Draft) -> Map<String, Value> {
    match serde_json::to_value(draft) {
        Ok(Value::Object(map)) => map,
        _ => Map::new(),
    }
}

fn text(inputs: &Map<String, Value>, name: &str) -> String {
    inputs
        .get(name)
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned()
}

/// Whether a field's inputs mean the same: line ends and blanks at ends of lines do not count, as they are not saved.
fn same(names: &[&str], a: &Map<String, Value>, b: &Map<String, Value>) -> bool {
    let means = |inputs: &Map<String, Value>| -> Vec<String> {
        names
            .iter()
            // Rules that are not in force are only remembered by the form.
            .filter(|name| **name != "rules" || text(inputs, "internet") == INTERNET_HOSTS)
            .map(|name| {
                text(inputs, name)
                    .lines()
                    .map(str::trim_end)
                    .collect::<Vec<_>>()
                    .join("\n")
                    .trim_end()
                    .to_owned()
            })
            .collect()
    };
    means(a) == means(b)
}

/// A field's value for people.
fn shown(names: &[&str], inputs: &Map<String, Value>) -> String {
    match names {
        ["internet", ..] => match text(inputs, "internet").as_str() {
            "enabled" => "Enabled".to_owned(),
            INTERNET_HOSTS => text(inputs, "rules").trim_end().to_owned(),
            _ => "No access".to_owned(),
        },
        ["cpu", ..] => {
            let gpu = text(inputs, "accelerator");
            if gpu.is_empty() {
                let or = |name, default: &str| {
                    Some(text(inputs, name))
                        .filter(|text| !text.is_empty())
                        .unwrap_or_else(|| default.to_owned())
                };
                format!("{} vCPU · {} GiB", or("cpu", "2"), or("memory", "4"))
            } else {
                gpu
            }
        }
        [name] => text(inputs, name).trim_end().to_owned(),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn base() -> Draft {
        Draft {
            name: "data".to_owned(),
            description: "old".to_owned(),
            internet: "none".to_owned(),
            script: "true\n".to_owned(),
            cpu: "2".to_owned(),
            memory: "4".to_owned(),
            ..Draft::default()
        }
    }

    #[test]
    fn what_only_one_changed_is_taken_and_what_both_changed_is_asked() {
        let mine = Draft {
            description: "mine".to_owned(),
            script: "true\r\n".to_owned(),
            cpu: "4".to_owned(),
            ..base()
        };
        let theirs = Draft {
            description: "theirs".to_owned(),
            script: "false\n".to_owned(),
            name: "data".to_owned(),
            ..base()
        };
        let change = FieldChange {
            field: "description".to_owned(),
            label: "Description".to_owned(),
            before: String::new(),
            after: String::new(),
            affects_verdict: false,
            by: Some("bo@example.com".to_owned()),
            by_user_id: None,
            at: None,
        };
        let merge = merge(&base(), &mine, &theirs, &[change], 7);
        assert_eq!(merge.revision, 7);
        let clashes: Vec<_> = merge.clashes.iter().map(|c| c.label.as_str()).collect();
        assert_eq!(clashes, ["Description"]);
        assert_eq!(merge.clashes[0].by.as_deref(), Some("bo@example.com"));
        let taken: Vec<_> = merge.taken.iter().map(|t| t.label.as_str()).collect();
        assert_eq!(
            taken,
            ["Setup script"],
            "a line end of a browser is no change"
        );
        assert_eq!(merge.merged.description, "mine", "nothing typed is lost");
        assert_eq!(merge.merged.script, "false\n");
        assert_eq!(merge.merged.cpu, "4");
    }

    #[test]
    fn inputs_that_belong_together_are_one_field() {
        let mine = Draft {
            cpu: "4".to_owned(),
            ..base()
        };
        let theirs = Draft {
            memory: "8".to_owned(),
            ..base()
        };
        let merge = merge(&base(), &mine, &theirs, &[], 2);
        assert_eq!(merge.clashes.len(), 1);
        assert_eq!(merge.clashes[0].mine, "4 vCPU · 4 GiB");
        assert_eq!(merge.clashes[0].theirs, "2 vCPU · 8 GiB");
    }

    #[test]
    fn the_same_edit_twice_is_no_clash_and_rules_out_of_force_are_no_edit() {
        let mine = Draft {
            name: "new".to_owned(),
            rules: "a.example\n".to_owned(),
            ..base()
        };
        let theirs = Draft {
            name: "new".to_owned(),
            ..base()
        };
        let merge = merge(&base(), &mine, &theirs, &[], 2);
        assert_eq!((merge.clashes.len(), merge.taken.len()), (0, 0));
    }

    #[test]
    fn what_is_typed_while_an_answer_is_on_its_way_stays_to_the_letter() {
        let sent = Draft {
            internet: INTERNET_HOSTS.to_owned(),
            rules: "a.example".to_owned(),
            env_vars: "B=1\nA=2".to_owned(),
            ..base()
        };
        let now = Draft {
            description: "old and more".to_owned(),
            rules: "a.example\nb.ex".to_owned(),
            // A blank that the next word follows.
            script: "true\n ".to_owned(),
            ..sent.clone()
        };
        let fresh = Draft {
            internet: "none".to_owned(),
            rules: String::new(),
            env_vars: "A=2\nB=1\n".to_owned(),
            name: "theirs".to_owned(),
            had_metadata: "on".to_owned(),
            ..base()
        };
        let form = beside_typed(&sent, &now, &fresh);
        let wanted = Draft {
            description: now.description.clone(),
            internet: now.internet.clone(),
            rules: now.rules.clone(),
            script: now.script.clone(),
            ..fresh.clone()
        };
        assert_eq!(form, wanted, "one half of a field is not taken alone");
        assert_eq!(beside_typed(&sent, &sent, &fresh), fresh);
    }

    #[test]
    fn every_input_belongs_to_one_field() {
        let names: Vec<String> = inputs(&Draft::default()).keys().cloned().collect();
        for name in &names {
            let times = GROUPS
                .iter()
                .filter(|group| group.0.contains(&name.as_str()))
                .count()
                + usize::from(FOLLOWING.contains(&name.as_str()));
            assert_eq!(times, 1, "{name}: add it to GROUPS");
        }
        for name in GROUPS.iter().flat_map(|group| group.0).chain(FOLLOWING) {
            assert!(
                names.iter().any(|known| known == name),
                "{name} is no input"
            );
        }
    }
}
