//! Administration over REST: members, invitations, the audit log; and asking a policy.

use serde_json::{Value, json};

use crate::support::{DEVELOPER, Doors};

#[tokio::test]
async fn an_admin_invites_changes_and_removes_members() {
    let doors = Doors::open().await;
    let invited = doors
        .post("/groundwork/v1/members/invitations")
        .bearer(&doors.admin)
        .json(&json!({"email": "Grace@Example.com", "role": "developer"}))
        .send()
        .await;
    assert_eq!(invited.status.as_u16(), 201);
    let invited = invited.json();
    assert_eq!(invited["email"], "grace@example.com");
    assert!(invited["path"].as_str().unwrap().starts_with("/invite/"));
    let open = doors
        .get("/groundwork/v1/members/invitations")
        .bearer(&doors.admin)
        .send()
        .await;
    let open = open.ok();
    assert_eq!(open["items"][0]["email"], "grace@example.com");
    assert!(
        !open.to_string().contains("/invite/"),
        "the link is shown once"
    );
    let withdraw = format!(
        "/groundwork/v1/members/invitations/{}",
        invited["invitation_id"].as_str().unwrap()
    );
    let delete = |path: String| {
        doors
            .call(http::Method::DELETE, &path)
            .bearer(&doors.admin)
            .send()
    };
    assert_eq!(
        delete(withdraw.clone()).await.ok(),
        json!({"deleted": true})
    );
    delete(withdraw).await.refused(404, "not_found");

    let members = doors
        .get("/groundwork/v1/members")
        .bearer(&doors.admin)
        .send()
        .await
        .ok();
    let of = |members: &Value, email: &str| {
        let mut items = members["items"].as_array().unwrap().iter();
        let found = items.find(|member| member["email"] == email);
        format!(
            "/groundwork/v1/members/{}",
            found.unwrap()["user_id"].as_str().unwrap()
        )
    };
    let developer = of(&members, DEVELOPER);
    let change = |path: String, body: Value| {
        doors
            .call(http::Method::PATCH, &path)
            .bearer(&doors.admin)
            .json(&body)
            .send()
    };
    let changed = change(developer.clone(), json!({"role": "user"})).await;
    assert_eq!(changed.ok()["role"], "user");
    // The key of the member counts with the new role at once.
    doors
        .post("/managed-agents/v1/environments")
        .bearer(&doors.developer)
        .json(&json!({"name": "x"}))
        .send()
        .await
        .refused(403, "forbidden");
    assert_eq!(
        delete(developer.clone()).await.ok(),
        json!({"deleted": true})
    );
    doors
        .get("/managed-agents/v1/environments")
        .bearer(&doors.developer)
        .send()
        .await
        .refused(401, "unauthorized");
    change(developer, json!({"role": "user"}))
        .await
        .refused(404, "not_found");

    let admin = of(&members, crate::support::ADMIN);
    let kept = change(admin.clone(), json!({"role": "user"})).await;
    assert_eq!(kept.refused(400, "invalid_request")["field"], "role");
    delete(admin).await.refused(400, "invalid_request");
}

#[tokio::test]
async fn wrong_administrative_bodies_are_refused() {
    let doors = Doors::open().await;
    for (path, body) in [
        (
            "/groundwork/v1/members/invitations",
            json!({"email": "no address", "role": "user"}),
        ),
        (
            "/groundwork/v1/members/invitations",
            json!({"email": "a@example.com", "role": "king"}),
        ),
        (
            "/groundwork/v1/members/invitations",
            json!({"email": "a@example.com"}),
        ),
        (
            "/groundwork/v1/members/invitations",
            json!({"email": "a@example.com", "role": "user", "x": 1}),
        ),
        (
            "/groundwork/v1/members/invitations",
            json!({"email": DEVELOPER, "role": "user"}),
        ),
        (
            "/groundwork/v1/api-keys",
            json!({"name": " ", "role": "user"}),
        ),
        (
            "/groundwork/v1/api-keys",
            json!({"name": "x", "role": "user", "expires_in_days": 0}),
        ),
    ] {
        doors
            .post(path)
            .bearer(&doors.admin)
            .json(&body)
            .send()
            .await
            .refused(400, "invalid_request");
    }
    for path in [
        "members/usr_1",
        "members/invitations/inv_1",
        "api-keys/key_1",
    ] {
        doors
            .call(http::Method::DELETE, &format!("/groundwork/v1/{path}"))
            .bearer(&doors.admin)
            .send()
            .await
            .refused(400, "invalid_request");
    }
}

#[tokio::test]
async fn the_audit_log_is_filtered_paged_and_exported() {
    let doors = Doors::open().await;
    for name in ["One", "Two", "Three"] {
        doors
            .post("/managed-agents/v1/environments")
            .bearer(&doors.developer)
            .json(&json!({"name": name}))
            .send()
            .await
            .ok();
    }
    let get = |path: String| doors.get(&path).bearer(&doors.admin).send();
    let base = "/groundwork/v1/audit-events";
    let first = get(format!(
        "{base}?action=environment.&actor={DEVELOPER}&limit=2"
    ))
    .await
    .ok();
    let names = |page: &Value| -> Vec<String> {
        page["items"]
            .as_array()
            .unwrap()
            .iter()
            .map(|item| item["detail"]["name"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(names(&first), ["Three", "Two"]);
    let before = first["next_before"].as_str().unwrap();
    let rest = get(format!(
        "{base}?action=environment.create&limit=2&before={before}"
    ))
    .await
    .ok();
    assert_eq!(names(&rest), ["One"]);
    assert_eq!(rest["next_before"], Value::Null);
    let none = get(format!("{base}?until=2000-01-01T00:00:00Z")).await.ok();
    assert_eq!(none["items"], json!([]));

    let lines = get(format!("{base}/export?action=environment.")).await;
    assert_eq!(lines.header("content-type"), Some("application/x-ndjson"));
    let items: Vec<Value> = lines
        .text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(items.len(), 3);
    assert_eq!(items[0]["detail"]["name"], "Three");
    let table = get(format!("{base}/export?action=environment.&format=csv")).await;
    assert_eq!(table.text.lines().count(), 4);
    assert!(table.text.starts_with("audit_id,at,actor,"));

    for query in [
        "since=yesterday",
        "limit=501",
        "limit=0",
        "before=1",
        "format=xml",
    ] {
        let path = if query.starts_with("format") {
            format!("{base}/export?{query}")
        } else {
            format!("{base}?{query}")
        };
        get(path).await.refused(400, "invalid_request");
    }
}

#[tokio::test]
async fn a_policy_is_asked_about_1_to_100_hosts() {
    let doors = Doors::open().await;
    for (hosts, status) in [(0, 400), (1, 200), (100, 200), (101, 400)] {
        let hosts: Vec<String> = (0..hosts).map(|n| format!("h{n}.example.com")).collect();
        let answer = doors
            .post("/groundwork/v1/network-policy/test")
            .bearer(&doors.user)
            .json(&json!({"network_policy": {}, "hosts": hosts}))
            .send()
            .await;
        assert_eq!(answer.status.as_u16(), status, "{answer:?}");
        if status == 200 {
            let verdicts = answer.ok();
            assert_eq!(verdicts["verdicts"].as_array().unwrap().len(), hosts.len());
        } else {
            let details = answer.refused(400, "invalid_request");
            assert_eq!(details["field"], "hosts");
        }
    }
}

#[tokio::test]
async fn a_policy_says_which_rule_decides() {
    let doors = Doors::open().await;
    let ask = |body: Value| {
        doors
            .post("/groundwork/v1/network-policy/test")
            .bearer(&doors.user)
            .json(&body)
            .send()
    };
    let policy = json!({"version": "v1", "rules": [
        {"match": {"host_glob": "secret.example.com"}, "action": {"type": "deny"}},
        {"match": {"host_glob": "*.example.com"}, "action": {"type": "allow"}},
    ]});
    let hosts = json!([
        "a.example.com",
        "secret.example.com",
        "example.com",
        "169.254.169.254"
    ]);
    let answer = ask(json!({"network_policy": policy, "hosts": hosts}))
        .await
        .ok();
    let said: Vec<(bool, Option<u64>)> = answer["verdicts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|verdict| {
            (
                verdict["allowed"].as_bool().unwrap(),
                verdict["rule"].as_u64(),
            )
        })
        .collect();
    assert_eq!(
        said,
        [
            (true, Some(1)),
            (false, Some(0)),
            (false, None),
            (false, None)
        ]
    );
    let open = ask(json!({"network_policy": {}, "hosts": ["example.com", "10.0.0.1"]}))
        .await
        .ok();
    assert_eq!(open["verdicts"][0]["allowed"], true);
    assert_eq!(open["verdicts"][1]["allowed"], false);

    let environment = doors.app.environment("Asked", "").await;
    let saved = ask(json!({"environment_id": environment, "hosts": ["example.com"]}))
        .await
        .ok();
    assert!(saved["verdicts"][0]["allowed"].is_boolean());
    ask(json!({"environment_id": "019a0000-0000-7000-8000-00000000ffff", "hosts": ["a.b"]}))
        .await
        .refused(404, "not_found");
    for (body, field) in [
        (json!({"hosts": ["a.b"]}), "network_policy"),
        (
            json!({"network_policy": {}, "environment_id": environment, "hosts": ["a.b"]}),
            "network_policy",
        ),
        (
            json!({"network_policy": {"version": "v2", "rules": []}, "hosts": ["a.b"]}),
            "network_policy.version",
        ),
        (json!({"network_policy": {}, "hosts": []}), "hosts"),
        (
            json!({"network_policy": {}, "hosts": ["https://a.b/"]}),
            "hosts[0]",
        ),
    ] {
        let details = ask(body).await.refused(400, "invalid_request");
        assert_eq!(details["field"], field);
    }
    // What is null was given, and is wrong.
    for (body, names) in [
        (json!({"network_policy": null}), "network_policy"),
        (
            json!({"network_policy": null, "environment_id": environment}),
            "network_policy",
        ),
        (
            json!({"network_policy": {}, "environment_id": null}),
            "environment_id",
        ),
    ] {
        let mut body = body;
        body["hosts"] = json!(["a.example.com"]);
        let refused = ask(body).await.refused(400, "invalid_request");
        assert!(refused.to_string().contains(names), "{refused}");
    }
}
