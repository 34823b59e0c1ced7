//! What is said of a policy before anything runs under it.

use serde_json::json;
use testkit::{TestApp, TestOptions};
use wire::policy::PolicyQuestion;

#[tokio::test]
async fn an_address_is_judged_as_the_gateway_judges_it_in_this_deployment() {
    let app = TestApp::with(TestOptions {
        configure: |config| {
            config.open_networks = vec![
                "10.20.0.0/16".parse().unwrap(),
                "0.0.0.0/0".parse().unwrap(),
            ];
            config.own_addresses =
                vec!["203.0.113.9".parse().unwrap(), "10.20.0.9".parse().unwrap()];
        },
        ..TestOptions::default()
    })
    .await;
    let closed = TestApp::start().await;
    for (host, opened, not_opened) in [
        ("10.20.1.1", true, false),
        ("64:ff9b::a14:101", true, false),
        ("203.0.113.8", true, true),
        ("203.0.113.9", false, true),
        ("[::ffff:203.0.113.9]", false, true),
        ("10.20.0.9", false, false),
        ("127.0.0.1", false, false),
        ("169.254.169.254", false, false),
        ("mirror.example", true, true),
    ] {
        for (app, expected) in [(&app, opened), (&closed, not_opened)] {
            let question = PolicyQuestion {
                network_policy: Some(json!({})),
                environment_id: None,
                hosts: vec![host.to_owned()],
            };
            let answer = app
                .control
                .test_network_policy(&app.admin, &question)
                .await
                .unwrap();
            assert_eq!(answer.verdicts[0].allowed, expected, "{host}");
        }
    }
}
