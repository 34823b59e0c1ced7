//! Hosts and times of a run, and the host that is allowed because a run was refused it.

use control::{Control, ports::StoreError};
use domain::{
    host_groups::HostGroups,
    ids::EnvironmentId,
    roles::Role,
    run_records::{AskedHost, EgressOutcome, LineTime, RunRecords},
};
use serde_json::{Value, json};
use testkit::{Moment, TestApp};
use wire::{
    error::Code,
    worker::{Gateway as _, GatewayError},
};

use crate::{code, refused};

fn asked(host: &str, outcome: EgressOutcome) -> AskedHost {
    AskedHost {
        host: host.to_owned(),
        port: 443,
        outcome,
        rule: None,
        redirected_from: None,
        line: Some(1),
        count: 2,
    }
}

fn times(times: &[(u32, u64)]) -> Vec<LineTime> {
    times
        .iter()
        .map(|(line, micros)| LineTime {
            line: *line,
            micros: *micros,
        })
        .collect()
}

fn rules(rules: &[&str]) -> Value {
    let rules: Vec<Value> = rules
        .iter()
        .map(|text| {
            let (action, glob) = match text.strip_prefix('!') {
                Some(glob) => ("deny", glob),
                None => ("allow", *text),
            };
            json!({"match": {"host_glob": glob}, "action": {"type": action}})
        })
        .collect();
    json!({"version": "v1", "rules": rules})
}

async fn environment(app: &TestApp, policy: &Value) -> EnvironmentId {
    let body =
        json!({"name": "E", "network_policy": policy, "setup": {"script": "curl a\nmake\n"}});
    let made = app
        .control
        .create_environment(&app.admin, &body, None)
        .await;
    made.unwrap().value.environment_id
}

async fn policy(app: &TestApp, id: EnvironmentId) -> Value {
    let saved = app.control.get_environment(&app.admin, id).await.unwrap();
    serde_json::to_value(saved).unwrap()["network_policy"].clone()
}

#[tokio::test]
async fn hosts_are_seen_while_the_run_goes_on_and_counted_at_its_end() {
    let app = TestApp::start().await;
    let id = environment(&app, &rules(&["ok.example", "!*.example"])).await;
    let run = app.run(id).await;
    let worker = app.worker("w").await;
    let held = worker.claim().await.held;
    let denied = AskedHost {
        rule: Some(1),
        count: 1,
        ..asked("no.example", EgressOutcome::Denied)
    };
    let report = |hosts: Vec<AskedHost>, timings| RunRecords { hosts, timings };
    worker
        .gateway
        .record(held, report(vec![denied.clone()], Vec::new()))
        .await
        .unwrap();
    let seen = app
        .control
        .setup_run_egress(&app.admin, id, run)
        .await
        .unwrap();
    assert!(!seen.complete);
    assert_eq!(seen.hosts[0].rule_host_glob.as_deref(), Some("*.example"));
    assert_eq!((seen.hosts[0].allowed, seen.hosts[0].count), (false, 1));

    let counted = AskedHost { count: 9, ..denied };
    let all = report(
        vec![counted, asked("ok.example", EgressOutcome::Allowed)],
        times(&[(1, 1_500_000), (2, 500_000)]),
    );
    worker.gateway.record(held, all.clone()).await.unwrap();
    worker.pass(held).await;
    assert_eq!(
        worker.gateway.record(held, all).await,
        Err(GatewayError::Fenced)
    );
    let seen = app
        .control
        .setup_run_egress(&app.admin, id, run)
        .await
        .unwrap();
    assert!(seen.complete);
    assert_eq!(
        seen.hosts.iter().map(|h| h.count).collect::<Vec<_>>(),
        [9, 2]
    );
    let timings = app
        .control
        .setup_run_timings(&app.admin, id, run)
        .await
        .unwrap();
    assert_eq!((timings.total_seconds, timings.previous), (2.0, None));
    assert_eq!(timings.lines[0].text, "curl a");
}

#[tokio::test]
async fn a_page_shows_some_of_thousands_of_hosts_what_was_blocked_first_and_says_how_many_there_are()
 {
    let app = TestApp::start().await;
    let id = environment(&app, &json!({})).await;
    let run = app.run(id).await;
    let worker = app.worker("w").await;
    let held = worker.claim().await.held;
    let of = |count: usize, outcome: EgressOutcome| {
        (0..count).map(move |n| asked(&format!("{outcome}-{n}.example"), outcome))
    };
    let report = RunRecords {
        hosts: of(2_000, EgressOutcome::Allowed)
            .chain(of(300, EgressOutcome::Denied))
            .collect(),
        timings: times(&[(1, 7)]),
    };
    worker.gateway.record(held, report).await.unwrap();
    let shown = app.control.run_hosts(&app.admin, id, run).await.unwrap();
    assert_eq!(
        (shown.hosts.len(), shown.more, shown.blocked),
        (500, 1_800, 300)
    );
    assert_eq!(shown.hosts[0].asked.host, "denied-0.example");
    assert_eq!(shown.hosts[300].asked.host, "allowed-0.example");
    let all = app
        .control
        .setup_run_egress(&app.admin, id, run)
        .await
        .unwrap();
    assert_eq!(all.hosts.len(), 2_300);
}

#[tokio::test]
async fn what_a_worker_reports_is_kept_within_bounds() {
    let app = TestApp::start().await;
    let id = environment(&app, &json!({})).await;
    let run = app.run(id).await;
    let worker = app.worker("w").await;
    let held = worker.claim().await.held;
    let long = AskedHost {
        redirected_from: Some("b".repeat(16_384)),
        ..asked(&"ä".repeat(8_192), EgressOutcome::Denied)
    };
    let report = RunRecords {
        hosts: vec![long, asked("a\0b.example", EgressOutcome::Denied)],
        timings: Vec::new(),
    };
    worker.gateway.record(held, report).await.unwrap();
    let seen = app
        .control
        .setup_run_egress(&app.admin, id, run)
        .await
        .unwrap();
    let long = &seen.hosts[0];
    assert!(long.host.len() <= 253 && long.host.ends_with("ä…"));
    assert_eq!(long.redirected_from.as_deref().map(str::len), Some(253));
    assert_eq!(seen.hosts[1].host, "ab.example");
}

#[tokio::test]
async fn a_report_that_the_database_refuses_is_told_apart_from_one_that_it_cannot_take_now() {
    let app = TestApp::start().await;
    let id = environment(&app, &json!({})).await;
    app.run(id).await;
    let worker = app.worker("w").await;
    let held = worker.claim().await.held;
    let report = || RunRecords {
        hosts: vec![asked("a.example", EgressOutcome::Denied)],
        timings: Vec::new(),
    };
    for (refused, error) in [
        (true, StoreError::Other("too large".into())),
        (false, StoreError::Unavailable("busy".into())),
    ] {
        app.store
            .once(Moment::Before("record_run"), || async { Err(error) });
        let answer = worker.gateway.record(held, report()).await;
        match answer {
            Err(GatewayError::Refused(_)) => assert!(refused),
            Err(GatewayError::Unavailable(_)) => assert!(!refused),
            other => panic!("{other:?}"),
        }
    }
    worker.gateway.record(held, report()).await.unwrap();
}

#[tokio::test]
async fn times_are_compared_with_the_last_run_that_has_some() {
    let app = TestApp::start().await;
    let id = environment(&app, &json!({})).await;
    let worker = app.worker("w").await;
    let mut runs = Vec::new();
    for taken in [
        vec![(1, 4_000_000), (2, 1_000_000)],
        vec![],
        vec![(1, 2_000_000)],
    ] {
        runs.push(app.run(id).await);
        let held = worker.claim().await.held;
        let records = RunRecords {
            hosts: Vec::new(),
            timings: times(&taken),
        };
        worker.gateway.record(held, records).await.unwrap();
        worker.pass(held).await;
        app.clock.advance(std::time::Duration::from_secs(1));
    }
    let last = app
        .control
        .setup_run_timings(&app.admin, id, runs[2])
        .await
        .unwrap();
    let previous = last.previous.unwrap();
    assert_eq!(
        (previous.setup_run_id, previous.total_seconds),
        (runs[0], 5.0)
    );
    assert_eq!(
        (last.lines[0].seconds, last.lines[0].previous_seconds),
        (2.0, Some(4.0))
    );
    let without = app
        .control
        .setup_run_timings(&app.admin, id, runs[1])
        .await
        .unwrap();
    assert!(without.lines.is_empty() && without.previous.is_none());
}

#[tokio::test]
async fn the_console_offers_to_allow_what_a_rule_would_mend() {
    let app = TestApp::start().await;
    let user = app.member(Role::User, "user@example.com").await;
    let id = environment(&app, &rules(&[])).await;
    let run = app.run(id).await;
    let worker = app.worker("w").await;
    let held = worker.claim().await.held;
    use EgressOutcome::{Allowed, Denied, RefusedAddress, UpstreamFailed};
    let hosts = [Allowed, Denied, RefusedAddress, UpstreamFailed].map(|outcome| {
        asked(
            &format!("{}.example", outcome.as_str().replace('_', "-")),
            outcome,
        )
    });
    let records = RunRecords {
        hosts: hosts.to_vec(),
        timings: Vec::new(),
    };
    worker.gateway.record(held, records).await.unwrap();
    let shown = |control: Control, ctx: control::OpCtx| async move {
        let hosts = control.run_hosts(&ctx, id, run).await.unwrap().hosts;
        hosts
            .into_iter()
            .map(|host| (host.asked.outcome, host.may_allow, host.allowed_since))
            .collect::<Vec<_>>()
    };
    assert_eq!(
        shown(app.control.clone(), app.admin.clone()).await,
        [
            (Denied, true, false),
            (RefusedAddress, false, false),
            (Allowed, false, false),
            (UpstreamFailed, false, false),
        ],
        "what was blocked comes first"
    );
    assert!(
        shown(app.control.clone(), user)
            .await
            .iter()
            .all(|host| !host.1)
    );
    app.control
        .allow_host(&app.admin, id, "denied.example")
        .await
        .unwrap();
    assert_eq!(
        shown(app.control.clone(), app.admin.clone()).await[0],
        (Denied, false, true)
    );
}

#[tokio::test]
async fn a_host_is_allowed_with_one_rule_where_it_takes_effect() {
    let app = TestApp::start().await;
    for (before, after) in [
        (rules(&[]), rules(&["a.example"])),
        (
            rules(&["b.example", "!*.example", "*"]),
            rules(&["b.example", "a.example", "!*.example", "*"]),
        ),
        (rules(&["*.example"]), rules(&["*.example"])),
        (json!({}), json!({})),
    ] {
        let id = environment(&app, &before).await;
        for _ in 0..2 {
            app.control
                .allow_host(&app.admin, id, "a.example")
                .await
                .unwrap();
            assert_eq!(policy(&app, id).await, after);
        }
        let history = app
            .control
            .environment_history(&app.admin, id)
            .await
            .unwrap();
        let expected = if before == after { 1 } else { 2 };
        assert_eq!(history.revisions.len(), expected, "a repeat is no edit");
    }
    let audit = app.control.audit_log(&app.admin, None).await.unwrap().items;
    assert!(
        audit
            .iter()
            .any(|row| row.action == "environment.allow_host")
    );
}

#[tokio::test]
async fn a_host_is_allowed_with_its_group_in_one_edit() {
    let app = TestApp::start().await;
    let groups = HostGroups::built_in();
    let [one, two] = groups.hosts("pypi") else {
        panic!("a group of two hosts")
    };
    let (one, two) = (one.as_str(), two.as_str());
    let alone = "in-no-group.example";
    for (before, host, after) in [
        (rules(&["a.example"]), two, rules(&["a.example", one, two])),
        (rules(&[one]), one, rules(&[one, two])),
        (rules(&[]), alone, rules(&[alone])),
    ] {
        let id = environment(&app, &before).await;
        for _ in 0..2 {
            app.control
                .allow_host_group(&app.admin, id, host)
                .await
                .unwrap();
            assert_eq!(policy(&app, id).await, after);
        }
        let history = app
            .control
            .environment_history(&app.admin, id)
            .await
            .unwrap();
        assert_eq!(history.revisions.len(), 2, "one edit, and a repeat is none");
    }
    let user = app.member(Role::User, "looks@example.com").await;
    let id = environment(&app, &rules(&[])).await;
    assert_eq!(
        code(app.control.allow_host_group(&user, id, one).await),
        Code::Forbidden
    );
}

#[tokio::test]
async fn allowing_a_host_keeps_what_somebody_else_saved_meanwhile() {
    let app = TestApp::start().await;
    let id = environment(&app, &rules(&[])).await;
    let (control, ctx) = (app.control.clone(), app.admin.clone());
    app.store
        .once(Moment::Before("update_environment"), move || async move {
            control
                .allow_host(&ctx, id, "theirs.example")
                .await
                .unwrap();
            Ok(())
        });
    app.control
        .allow_host(&app.admin, id, "mine.example")
        .await
        .unwrap();
    assert_eq!(
        policy(&app, id).await,
        rules(&["theirs.example", "mine.example"])
    );
}

#[tokio::test]
async fn what_cannot_be_allowed_is_refused() {
    let app = TestApp::start().await;
    let id = environment(&app, &rules(&[])).await;
    for host in ["*.example", "https://a.example", "", "a.example:443"] {
        let error = refused(app.control.allow_host(&app.admin, id, host).await);
        assert_eq!(error.code(), Code::InvalidRequest, "{host}");
        assert_eq!(error.api().details["field"], "host");
    }
    let many: Vec<String> = (0..200).map(|n| format!("h{n}.example")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let full = environment(&app, &rules(&many)).await;
    let error = refused(app.control.allow_host(&app.admin, full, "a.example").await);
    assert_eq!(error.code(), Code::InvalidRequest);
    let user = app.member(Role::User, "user@example.com").await;
    assert_eq!(
        code(app.control.allow_host(&user, id, "a.example").await),
        Code::Forbidden
    );
    let stranger = TestApp::stranger();
    assert_eq!(
        code(app.control.allow_host(&stranger, id, "a.example").await),
        Code::NotFound
    );
}
