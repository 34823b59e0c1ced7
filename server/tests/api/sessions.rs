//! Sessions over REST, their terminal and their port.

use axum::Router;
use domain::{roles::Role, session::Status};
use futures::{SinkExt, StreamExt};
use http::{Method, StatusCode};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use testkit::TestApp;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_tungstenite::tungstenite::{Message, client::IntoClientRequest};

use crate::{
    coverage::sign_in,
    support::{ADMIN, DEVELOPER, Doors},
};

async fn settled(doors: &Doors, id: &str) -> Value {
    doors
        .app
        .eventually("the session rests", || async {
            let session = doors
                .get(&format!("/groundwork/v1/sessions/{id}"))
                .bearer(&doors.admin)
                .send()
                .await
                .ok();
            let moving = session["status"] == "provisioning" || session.get("pending").is_some();
            (!moving).then_some(session)
        })
        .await
}

/// A running session of an environment that shows port 8080.
pub(crate) async fn running(doors: &Doors) -> String {
    let environment = doors
        .app
        .control
        .create_environment(
            &doors.app.admin,
            &json!({"name": "Web", "http_port": 8080}),
            None,
        )
        .await
        .unwrap()
        .value
        .environment_id;
    let started = doors
        .post("/groundwork/v1/sessions")
        .bearer(&doors.developer)
        .json(&json!({"environment_id": environment}))
        .send()
        .await;
    assert_eq!(started.status, StatusCode::ACCEPTED);
    let id = started.json()["session_id"].as_str().unwrap().to_owned();
    assert_eq!(settled(doors, &id).await["status"], "running");
    id
}

#[tokio::test]
async fn no_session_starts_with_docker_behind_a_network_policy() {
    let doors = Doors::open().await;
    let environment = doors.app.environment("Docker", "").await;
    // No door saves both together; a row may hold them from elsewhere.
    let store = doors.app.store.inner();
    let row = store.environment(doors.app.organization, environment).await;
    let mut row = row.unwrap().unwrap();
    row.version += 1;
    row.definition.privileged = true;
    let written = store
        .update_environment(row.version - 1, &row, control::ports::Effects::default())
        .await
        .unwrap();
    assert_eq!(written, control::ports::Written::Done);
    let refused = doors
        .post("/groundwork/v1/sessions")
        .bearer(&doors.developer)
        .json(&json!({"environment_id": environment}))
        .send()
        .await;
    let details = refused.refused(422, "environment_not_verified");
    assert_eq!(
        details["next_action"],
        json!({
            "operation_id": "managedAgentsUpdateEnvironment", "method": "PATCH",
            "path": format!("/managed-agents/v1/environments/{environment}"),
        })
    );
    assert!(
        refused
            .text
            .contains("Turn privileged off, or open the network ({})"),
        "{refused:?}"
    );
    // The console says the same before anybody tries.
    let page = doors.app.control.sessions_page(&doors.app.admin).await;
    let shown = &page.unwrap().environments[0];
    assert_eq!(
        shown.reason,
        "It is privileged and restricts the network. Turn one of the two off."
    );
}

#[tokio::test]
async fn a_session_is_started_used_stopped_resumed_and_deleted() {
    let doors = Doors::open().await;
    let id = running(&doors).await;
    let path = format!("/groundwork/v1/sessions/{id}");
    let listed = doors
        .get("/groundwork/v1/sessions")
        .bearer(&doors.user)
        .send()
        .await
        .ok();
    assert_eq!(listed["sessions"][0]["session_id"], *id);
    let exec = |body: Value| {
        let call = doors.post(&format!("{path}/exec")).bearer(&doors.developer);
        async move { call.json(&body).send().await }
    };
    let ran = exec(json!({"command": "echo hi"})).await.ok();
    assert_eq!(
        (&ran["exit_code"], &ran["stdout"]),
        (&json!(0), &json!("hi\n"))
    );
    let details = exec(json!({"command": "a", "argv": ["b"]}))
        .await
        .refused(400, "invalid_request");
    assert_eq!(details["field"], "argv");
    exec(json!({"nonsense": 1}))
        .await
        .refused(400, "invalid_request");

    for (action, status) in [("stop", "stopped"), ("resume", "running")] {
        doors
            .post(&format!("{path}/{action}"))
            .bearer(&doors.developer)
            .send()
            .await
            .ok();
        assert_eq!(settled(&doors, &id).await["status"], status);
    }
    doors
        .post(&format!("{path}/stop"))
        .bearer(&doors.developer)
        .send()
        .await
        .ok();
    settled(&doors, &id).await;
    exec(json!({"command": "echo hi"}))
        .await
        .refused(409, "session_not_running");
    doors
        .call(Method::DELETE, &path)
        .bearer(&doors.developer)
        .send()
        .await
        .ok();
    doors
        .app
        .eventually("it is gone", || async {
            let found = doors.get(&path).bearer(&doors.admin).send().await;
            (found.status == StatusCode::NOT_FOUND).then_some(())
        })
        .await;
}

#[tokio::test]
async fn an_environment_that_is_not_verified_names_the_call_that_mends_it() {
    let doors = Doors::open().await;
    let environment = doors.app.environment("Scripted", "echo hi\n").await;
    let details = doors
        .post("/groundwork/v1/sessions")
        .bearer(&doors.developer)
        .json(&json!({"environment_id": environment}))
        .send()
        .await
        .refused(422, "environment_not_verified");
    assert_eq!(details["next_action"]["method"], "POST");
    assert_eq!(
        details["next_action"]["path"],
        format!("/managed-agents/v1/environments/{environment}/setup-runs")
    );
}

#[tokio::test]
async fn a_command_streams_and_leaving_kills_it() {
    let doors = Doors::open().await;
    let id = running(&doors).await;
    let stream = |command: &str| {
        doors
            .post(&format!("/groundwork/v1/sessions/{id}/exec"))
            .bearer(&doors.developer)
            .header("accept", "text/event-stream")
            .json(&json!({"command": command}))
    };
    let whole = stream("warn oh").send().await;
    assert_eq!(whole.header("content-type"), Some("text/event-stream"));
    assert!(
        whole
            .text
            .starts_with("event: stderr\ndata: {\"text\":\"oh\\n\"}\n\nevent: exit\ndata: {"),
        "{}",
        whole.text
    );
    let mut open = stream("sleep").open().await.into_body();
    // A command runs as long as somebody reads.
    tokio::select! {
        frame = open.frame() => panic!("{frame:?}"),
        () = doors.app.eventually("the command runs", || async {
            (doors.app.host.running() == 1).then_some(())
        }) => {}
    }
    drop(open);
    doors
        .app
        .eventually("the command is killed", || async {
            (doors.app.host.killed() == 1).then_some(())
        })
        .await;
}

/// Serves the doors on a port, for what needs real connections.
pub(crate) async fn listen(router: Router) -> std::net::SocketAddr {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, router).await });
    address
}

pub(crate) type Socket =
    tokio_tungstenite::WebSocketStream<tokio_tungstenite::MaybeTlsStream<tokio::net::TcpStream>>;

pub(crate) async fn said(socket: &mut Socket) -> Value {
    loop {
        match socket.next().await.unwrap().unwrap() {
            Message::Text(text) => return serde_json::from_str(&text).unwrap(),
            Message::Binary(_) | Message::Ping(_) => {}
            other => panic!("{other:?}"),
        }
    }
}

pub(crate) async fn shown(socket: &mut Socket, text: &str) {
    let mut all = String::new();
    while !all.contains(text) {
        if let Message::Binary(bytes) = socket.next().await.unwrap().unwrap() {
            all.push_str(std::str::from_utf8(&bytes).unwrap());
        }
    }
}

#[tokio::test]
async fn a_terminal_is_a_web_socket_that_can_be_come_back_to() {
    let doors = Doors::open().await;
    let id = running(&doors).await;
    let address = listen(doors.router()).await;
    let connect = |query: String| {
        let url = format!("ws://{address}/groundwork/v1/sessions/{id}/terminal{query}");
        let mut request = url.into_client_request().unwrap();
        let bearer = format!("Bearer {}", doors.developer);
        request
            .headers_mut()
            .insert("authorization", bearer.parse().unwrap());
        tokio_tungstenite::connect_async(request)
    };
    let (mut socket, _) = connect("?cols=100&rows=30".to_owned()).await.unwrap();
    let hello = said(&mut socket).await;
    assert_eq!(
        (&hello["type"], &hello["reattached"]),
        (&json!("terminal"), &json!(false))
    );
    let terminal = hello["terminal_id"].as_str().unwrap().to_owned();
    socket.send(Message::binary("one\n")).await.unwrap();
    shown(&mut socket, "[one]").await;
    drop(socket);
    let (mut socket, _) = connect(format!("?terminal_id={terminal}")).await.unwrap();
    assert_eq!(said(&mut socket).await["reattached"], true);
    shown(&mut socket, "[one]").await;
    let resize = json!({"type": "resize", "cols": 90, "rows": 20}).to_string();
    socket.send(Message::text(resize)).await.unwrap();
    socket.send(Message::binary("exit\n")).await.unwrap();
    let exit = said(&mut socket).await;
    assert_eq!(
        (&exit["type"], &exit["exit_code"]),
        (&json!("exit"), &json!(7))
    );
    assert!(doors.app.host.sizes().contains(&(100, 30)));
    assert!(doors.app.host.sizes().contains(&(90, 20)));
}

#[tokio::test]
async fn a_cookie_opens_a_terminal_only_for_the_consoles_own_pages() {
    let doors = Doors::open().await;
    let id = running(&doors).await;
    let address = listen(doors.router()).await;
    let cookie = sign_in(&doors, DEVELOPER).await;
    let connect = |origin: Option<String>, path: &str| {
        let mut request = format!("ws://{address}{path}")
            .into_client_request()
            .unwrap();
        let headers = request.headers_mut();
        headers.insert("cookie", cookie.parse().unwrap());
        if let Some(origin) = origin {
            headers.insert("origin", origin.parse().unwrap());
        }
        async move {
            match tokio_tungstenite::connect_async(request).await {
                Ok((socket, _)) => Ok(socket),
                Err(tokio_tungstenite::tungstenite::Error::Http(answer)) => {
                    Err(answer.status().as_u16())
                }
                Err(other) => panic!("{other}"),
            }
        }
    };
    let path = format!("/sessions/{id}/terminal");
    for origin in [
        None,
        Some("https://evil.example".to_owned()),
        Some("null".to_owned()),
    ] {
        assert_eq!(
            connect(origin.clone(), &path).await.err(),
            Some(403),
            "{origin:?}"
        );
    }
    let api = format!("/groundwork/v1/sessions/{id}/terminal");
    let own = Some(format!("http://{address}"));
    assert_eq!(
        connect(own.clone(), &api).await.err(),
        Some(401),
        "no cookie in the API"
    );
    let mut socket = connect(own, &path).await.unwrap();
    assert_eq!(said(&mut socket).await["type"], "terminal");
}

/// A server inside: answers each request with what it got, and with headers that must not come through.
fn serve_inside(app: &TestApp) {
    app.host.serve(8080, |mut stream| {
        tokio::spawn(async move {
            let mut got = Vec::new();
            while !got.windows(4).any(|end| end == b"\r\n\r\n") {
                let mut piece = [0; 4_096];
                match stream.read(&mut piece).await {
                    Ok(0) | Err(_) => return,
                    Ok(n) => got.extend_from_slice(&piece[..n]),
                }
            }
            let text = String::from_utf8_lossy(&got).to_lowercase();
            let answer = if text.starts_with("get /away") {
                "HTTP/1.1 302 Found\r\nlocation: /login\r\ncontent-length: 0\r\n\r\n".to_owned()
            } else {
                format!(
                    "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\nset-cookie: groundwork_session=stolen; Path=/\r\n\
                     clear-site-data: \"*\"\r\naccess-control-allow-credentials: true\r\ncontent-security-policy: \
                     default-src 'self'\r\nstrict-transport-security: max-age=1\r\ncontent-length: {}\r\n\r\n{text}",
                    text.len()
                )
            };
            let _ = stream.write_all(answer.as_bytes()).await;
        });
    });
}

#[tokio::test]
async fn a_sessions_port_is_for_members_and_its_pages_cannot_act_as_them() {
    let doors = Doors::open().await;
    let id = running(&doors).await;
    serve_inside(&doors.app);
    let door = format!("/sessions/{id}/http/a/b?c=d");
    let anonymous = doors.get(&door).send().await;
    assert_eq!(anonymous.status, StatusCode::UNAUTHORIZED);
    let cookie = sign_in(&doors, ADMIN).await;
    let opened = doors.get(&door).header("cookie", &cookie).send().await;
    assert_eq!(opened.status, StatusCode::SEE_OTHER);
    let place = opened.header("location").unwrap().to_owned();
    assert!(
        place.starts_with("/s/") && place.ends_with("/a/b?c=d"),
        "{place}"
    );

    // The token is enough, and whatever else comes along stays outside.
    let page = doors
        .get(&place)
        .header("cookie", &cookie)
        .header("authorization", "Bearer secret-word")
        .header("referer", "https://console.example/environments")
        .header("x-mine", "kept")
        .send()
        .await;
    assert_eq!(page.status, StatusCode::OK);
    assert!(
        page.text.starts_with("get /a/b?c=d http/1.1\r\n"),
        "{}",
        page.text
    );
    assert!(page.text.contains("x-mine: kept"));
    assert!(page.text.contains("host: localhost:8080"));
    for private in ["cookie", "secret-word", "referer", "groundwork_session"] {
        assert!(
            !page.text.contains(private),
            "{private} went inside: {}",
            page.text
        );
    }
    let policies: Vec<&str> = page
        .headers
        .get_all("content-security-policy")
        .iter()
        .map(|value| value.to_str().unwrap())
        .collect();
    assert_eq!(policies.len(), 2, "{policies:?}");
    let sandbox = policies
        .iter()
        .find(|policy| policy.starts_with("sandbox"))
        .unwrap();
    assert!(!sandbox.contains("allow-same-origin") && !sandbox.contains("popups"));
    for theirs in [
        "set-cookie",
        "clear-site-data",
        "access-control-allow-credentials",
        "strict-transport-security",
    ] {
        assert_eq!(page.header(theirs), None, "{theirs} came through");
    }
    assert_eq!(page.header("referrer-policy"), Some("no-referrer"));
    assert_eq!(page.header("access-control-allow-origin"), Some("*"));

    let base = place.trim_end_matches("a/b?c=d");
    let away = doors.get(&format!("{base}away")).send().await;
    assert_eq!(away.header("location"), Some(&*format!("{base}login")));
    let bare = doors.get(base.trim_end_matches('/')).send().await;
    assert_eq!(bare.header("location"), Some(base));
    let worker = doors
        .get(&format!("{base}sw.js"))
        .header("service-worker", "script")
        .send()
        .await;
    assert_eq!(worker.status, StatusCode::FORBIDDEN);
    let guess = doors.get("/s/nonsense/").send().await;
    assert_eq!(guess.status, StatusCode::NOT_FOUND);

    // What such a page would send to the console comes from the origin "null".
    let forged = doors
        .post("/fn/delete-session")
        .header("cookie", &cookie)
        .header("origin", "null")
        .raw(
            "application/x-www-form-urlencoded",
            format!("session_id={id}"),
        )
        .send()
        .await;
    assert_eq!(forged.status, StatusCode::FORBIDDEN);
    let app = &doors.app;
    let found = app
        .control
        .get_session(&app.admin, id.parse().unwrap(), None);
    assert_eq!(found.await.unwrap().status, Status::Running);
}

#[tokio::test]
async fn the_role_user_sees_sessions_and_opens_no_port() {
    let doors = Doors::open().await;
    let id = running(&doors).await;
    let cookie = sign_in(&doors, crate::support::USER).await;
    let answer = doors
        .get(&format!("/sessions/{id}/http/"))
        .header("cookie", &cookie)
        .send()
        .await;
    assert_eq!(answer.status, StatusCode::FORBIDDEN);
    assert!(doors.key_of(Role::User).starts_with("rma_"));
    let page = doors
        .get(&format!("/sessions/{id}"))
        .header("cookie", &cookie)
        .header("accept", "text/html")
        .send()
        .await;
    assert_eq!(page.status, StatusCode::OK);
    assert!(
        !page.text.contains("session-terminal"),
        "no terminal for them"
    );
    assert!(!page.text.contains("stop-session"), "no form for them");
}
