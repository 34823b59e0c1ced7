use std::collections::BTreeMap;

use serde_json::json;

use super::*;

#[test]
fn the_internet_choice_is_a_policy() {
    let mut draft = Draft {
        rules: "github.com\ndeny *.evil.example\n".to_owned(),
        ..Draft::blank()
    };
    for (choice, policy) in [
        ("none", json!({"version": "v1", "rules": []})),
        ("enabled", json!({})),
        (
            "hosts",
            json!({"version": "v1", "rules": [
                {"match": {"host_glob": "github.com"}, "action": {"type": "allow"}},
                {"match": {"host_glob": "*.evil.example"}, "action": {"type": "deny"}},
            ]}),
        ),
    ] {
        draft.internet = choice.to_owned();
        assert_eq!(draft.policy(), policy, "{choice}");
        let (shown, _) = show_policy(&policy);
        assert_eq!(shown, choice);
    }
}

#[test]
fn every_unreadable_input_is_named_at_once() {
    let draft = Draft {
        cpu: "two".to_owned(),
        disk: "1.5".to_owned(),
        metadata: "[]".to_owned(),
        env_vars: "NOVALUE".to_owned(),
        ..Draft::blank()
    };
    let paths: Vec<String> = match draft.create_body() {
        Ok(body) => panic!("accepted: {body}"),
        Err(error) => error.issues().into_iter().map(|(path, _)| path).collect(),
    };
    assert_eq!(
        paths,
        ["resources.cpu_milli", "pvc_size_gi", "env_vars", "metadata"]
    );
}

#[test]
fn empty_numbers_stand_for_defaults_and_empty_metadata_clears() {
    let draft = Draft {
        name: "a".to_owned(),
        ..Draft::default()
    };
    let create = draft.create_body().map_err(|e| e.to_string());
    assert_eq!(
        create.as_ref().map(|b| b["resources"].clone()),
        Ok(json!({}))
    );
    assert_eq!(
        create.as_ref().map(|b| b["setup"].clone()),
        Ok(json!({"script": ""}))
    );
    assert_eq!(create.map(|b| b.get("metadata").cloned()), Ok(None));
    for (had, sent) in [("", None), ("on", Some(json!({})))] {
        let draft = Draft {
            had_metadata: had.to_owned(),
            ..draft.clone()
        };
        let update = draft.update_body().map_err(|e| e.to_string());
        assert_eq!(update.map(|b| b.get("metadata").cloned()), Ok(sent));
    }
}

#[test]
fn a_gpu_leaves_the_size_out() {
    let draft = Draft {
        accelerator: "T4".to_owned(),
        ..Draft::blank()
    };
    let body = draft.create_body().map_err(|e| e.to_string());
    assert_eq!(
        body.map(|b| b["resources"].clone()),
        Ok(json!({"accelerator": {"name": "T4", "type": "gpu", "count": 1}}))
    );
}

#[test]
fn rules_are_read_from_whatever_was_pasted() {
    let rule = |allow, host: &str| RuleLine {
        allow,
        host: host.to_owned(),
    };
    assert_eq!(
        parse_rules(
            "a.example, b.example\r\n# comment\n!c.example\nallow d.example # why\ndeny e.example f.example\n\n"
        ),
        [
            rule(true, "a.example"),
            rule(true, "b.example"),
            rule(false, "c.example"),
            rule(true, "d.example"),
            rule(false, "e.example"),
            rule(false, "f.example"),
        ]
    );
    let rules = vec![rule(true, "a"), rule(false, "*.b")];
    assert_eq!(parse_rules(&show_rules(&rules)), rules);
}

#[test]
fn a_dotenv_file_is_read() {
    let text = "# comment\nA=1\nexport B = two words \nC=\"x\\ny\" # note\nD='a\nb'\nE=\nF=a#b # c\r\nG=a=b\n";
    let want: BTreeMap<String, String> = [
        ("A", "1"),
        ("B", "two words"),
        ("C", "x\ny"),
        ("D", "a\nb"),
        ("E", ""),
        ("F", "a#b"),
        ("G", "a=b"),
    ]
    .into_iter()
    .map(|(k, v)| (k.to_owned(), v.to_owned()))
    .collect();
    assert_eq!(parse_dotenv(text), Ok(want));
}

#[test]
fn a_dotenv_mistake_names_its_line() {
    for (text, message) in [
        ("A=1\nB", "Line 2 has no \"=\": write NAME=value."),
        ("A=1\n\nA=2", "Line 3: A is there twice. Keep one."),
        ("A=\"x", "Line 1: the quote of A is not closed."),
        (
            "A=\"x\" y",
            "Line 1: there is text behind the closing quote of A.",
        ),
    ] {
        assert_eq!(parse_dotenv(text), Err(message.to_owned()), "{text}");
    }
}

#[test]
fn variables_read_back_as_they_were_shown() {
    let vars: BTreeMap<String, String> = [
        ("PLAIN", "a b"),
        ("EMPTY", ""),
        ("LINES", "a\nb\r\n"),
        ("QUOTES", "\"x\" 'y' \\n"),
        ("SPACES", "  x "),
        ("HASH", "a # b"),
        ("DOLLAR", "$HOME ${X}"),
        ("BACKSLASH", "C:\\new\\t"),
    ]
    .into_iter()
    .map(|(k, v)| (k.to_owned(), v.to_owned()))
    .collect();
    assert_eq!(parse_dotenv(&show_dotenv(&vars)), Ok(vars));
}

#[test]
fn variables_are_added_to_what_is_written() {
    let more = [("B".to_owned(), "two words # not a note".to_owned())];
    for (text, expected) in [
        ("", "B=\"two words # not a note\"\n"),
        ("# mine\nA=1", "# mine\nA=1\nB=\"two words # not a note\"\n"),
        ("# mine\nB=1\n", "B=\"two words # not a note\"\n"),
    ] {
        assert_eq!(with_variables(text, &more).as_deref(), Ok(expected));
    }
    assert!(with_variables("NOVALUE", &more).is_err());
}
