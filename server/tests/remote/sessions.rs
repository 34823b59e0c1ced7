//! `groundwork session`, as far as a server without a worker for sessions goes.

use crate::place::Place;

#[tokio::test(flavor = "multi_thread")]
async fn sessions_are_listed_and_refusals_say_what_to_do() {
    let place = Place::open().await;
    let none = place
        .run(&["session", "list", "--output", "json"])
        .await
        .json();
    assert_eq!(none["sessions"], serde_json::json!([]));
    place.app.environment("Untested", "echo hi\n").await;
    let refused = place.run(&["session", "start", "Untested"]).await;
    assert_eq!(refused.code, Some(1), "{refused:#?}");
    place
        .run(&["session", "exec", "../../x", "--", "true"])
        .await
        .failed("not the id of a session");
    place
        .run(&["session", "stop", "019a0000-0000-7000-8000-00000000ffff"])
        .await
        .failed("nothing with this id");
}
