//! Two people apply at once: nobody's change is lost without a word.

use serde_json::json;
use testkit::Moment;

use crate::place::{Place, Ran};

fn policy(host: &str) -> String {
    format!(
        "name: shared\nnetwork_policy:\n  version: v1\n  rules:\n  - match: {{host_glob: {host}}}\n    action: {{type: allow}}\n"
    )
}

/// Applies `first`, and lets all of another command's `second` happen just before the write at `moment`.
async fn race(place: &Place, moment: Moment, first: &str, second: &str) -> (Ran, Ran) {
    let (first, second) = (
        place.file("first.yaml", first),
        place.file("second.yaml", second),
    );
    let (tell, told) = tokio::sync::oneshot::channel();
    let mut other = place.command(&["env", "apply", "-f", &second, "--yes"]);
    place.app.store.once(moment, move || async move {
        let _ = tell.send(Ran::of(other.output().await.unwrap()));
        Ok(())
    });
    let ran = place.run(&["env", "apply", "-f", &first, "--yes"]).await;
    (ran, told.await.unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_who_apply_at_once_one_is_told_and_nothing_is_lost() {
    let place = Place::open().await;
    place.app.environment("shared", "").await;
    // The other one writes between the read and the write of one request; then between two requests of one command.
    for (moment, first, second, said) in [
        (
            Moment::Before("update_environment"),
            policy("a.example"),
            policy("b.example"),
            "at the same moment",
        ),
        (
            Moment::Before("update_environment"),
            "name: shared\nresources: {cpu_milli: 1000}\n".to_owned(),
            "name: shared\nresources: {cpu_milli: 4000}\n".to_owned(),
            "at the same moment",
        ),
        (
            Moment::Before("claim_receipt"),
            policy("c.example"),
            policy("d.example"),
            "after this command read them",
        ),
    ] {
        let (lost, won) = race(&place, moment, &first, &second).await;
        assert!(won.ok().contains("changed"));
        assert!(lost.err.contains("run it again"), "{lost:#?}");
        lost.failed(said);
        // What the other one wrote stands, and the next plan shows it.
        let second = place.file("second.yaml", &second);
        let same = place.run(&["env", "apply", "-f", &second, "--yes"]).await;
        assert!(same.ok().contains("no changes"));
        let first = place.file("first.yaml", &first);
        let again = place.run(&["env", "apply", "-f", &first, "--yes"]).await;
        assert!(again.ok().contains("changed"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_who_change_different_fields_at_once_both_have_their_change() {
    let place = Place::open().await;
    place.app.environment("shared", "").await;
    let (one, other) = race(
        &place,
        Moment::Before("update_environment"),
        "name: shared\ndescription: for all\n",
        "name: shared\nenv_vars: {MODE: fast}\n",
    )
    .await;
    one.ok();
    other.ok();
    let saved = place
        .run(&["env", "get", "shared", "--output", "json"])
        .await
        .json();
    assert_eq!(
        (&saved["description"], &saved["env_vars"]),
        (&json!("for all"), &json!({"MODE": "fast"}))
    );
}
