//! Which limit a failed run asks to be raised, and to what.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

mod common;
use common::{definition, rich};
use domain::{
    mending::{Raise, raise},
    setup_run::HintCode,
};
use serde_json::{Value, json};

#[test]
fn a_limit_is_doubled_up_to_the_most_there_is() {
    let sizes = rich().sizes;
    for (hint, fields, wanted) in [
        (HintCode::Timeout, json!({}), Some(Raise::Timeout(1_200))),
        (
            HintCode::Timeout,
            json!({"setup": {"script": "x", "timeout_seconds": 10}}),
            Some(Raise::Timeout(60)),
        ),
        (
            HintCode::Timeout,
            json!({"setup": {"script": "x", "timeout_seconds": 2_000}}),
            Some(Raise::Timeout(3_600)),
        ),
        (
            HintCode::Timeout,
            json!({"setup": {"script": "x", "timeout_seconds": 3_600}}),
            None,
        ),
        (HintCode::NoSpace, json!({}), Some(Raise::Disk(20))),
        (
            HintCode::NoSpace,
            json!({"pvc_size_gi": 60}),
            Some(Raise::Disk(100)),
        ),
        (HintCode::NoSpace, json!({"pvc_size_gi": 100}), None),
        (HintCode::OutOfMemory, json!({}), Some(Raise::Memory(8_192))),
        (
            HintCode::OutOfMemory,
            json!({"resources": {"cpu_milli": 16_000, "memory_mib": 40_960}}),
            Some(Raise::Memory(65_536)),
        ),
        (
            HintCode::OutOfMemory,
            json!({"resources": {"cpu_milli": 1_000, "memory_mib": 65_536}}),
            None,
        ),
        (
            HintCode::OutOfMemory,
            json!({"resources": {"accelerator": {"name": "T4"}}}),
            None,
        ),
        (HintCode::CommandNotFound, json!({}), None),
        (HintCode::EgressBlocked, json!({}), None),
    ] {
        let definition = definition(fields.clone());
        let found = raise(hint, &definition, &sizes);
        assert_eq!(found, wanted, "{hint} with {fields}");
        if let Some(raise) = found {
            assert!(!raise.is_done(&definition), "{hint} with {fields}");
            assert!(
                raise.is_done(&raise.apply(&definition)),
                "{hint} with {fields}"
            );
        }
    }
}

#[test]
fn raising_changes_nothing_else() {
    let before = definition(json!({"setup": {"script": "make"}, "description": "d"}));
    let after = Raise::Timeout(1_200).apply(&before);
    let (mut before, after) = (
        serde_json::to_value(before).unwrap(),
        serde_json::to_value(after).unwrap(),
    );
    before["setup"]["timeout_seconds"] = Value::from(1_200);
    assert_eq!(before, after);
}
