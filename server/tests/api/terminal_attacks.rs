//! Terminals and commands of sessions in the hands of people who were sent away, and of clients that mean ill. The runtime
//! is a fake; how a real terminal is bounded is seen in `crates/execution/tests/oci`.

use std::time::Duration;

use domain::roles::Role;
use futures::{SinkExt, StreamExt};
use serde_json::json;
use tokio_tungstenite::tungstenite::{Message, client::IntoClientRequest};

use crate::{
    coverage::sign_in,
    sessions::{Socket, listen, running, said, shown},
    support::{DEVELOPER, Doors},
};

/// How somebody loses the right to what they hold open.
const WAYS: [&str; 5] = [
    "removed",
    "demoted",
    "signed out",
    "signed out everywhere",
    "key revoked",
];

struct Held {
    doors: Doors,
    session: String,
    cookie: String,
}

impl Held {
    async fn open() -> Self {
        let doors = Doors::open().await;
        let session = running(&doors).await;
        let cookie = sign_in(&doors, DEVELOPER).await;
        Self {
            doors,
            session,
            cookie,
        }
    }

    /// A terminal, by the console's sign-in or by a key.
    async fn terminal(&self, by_key: bool) -> Socket {
        let address = listen(self.doors.router()).await;
        let path = if by_key { "/groundwork/v1" } else { "" };
        let url = format!("ws://{address}{path}/sessions/{}/terminal", self.session);
        let mut request = url.into_client_request().unwrap();
        let headers = request.headers_mut();
        if by_key {
            let bearer = format!("Bearer {}", self.doors.developer);
            headers.insert("authorization", bearer.parse().unwrap());
        } else {
            headers.insert("cookie", self.cookie.parse().unwrap());
            headers.insert("origin", format!("http://{address}").parse().unwrap());
        }
        let (mut socket, _) = tokio_tungstenite::connect_async(request).await.unwrap();
        assert_eq!(said(&mut socket).await["type"], "terminal");
        socket
    }

    async fn lose(&self, way: &str) {
        let app = &self.doors.app;
        let members = app.control.members(&app.admin).await.unwrap();
        let developer = members
            .iter()
            .find(|member| member.email == DEVELOPER)
            .unwrap();
        let developer = developer.user_id;
        match way {
            "removed" => app
                .control
                .remove_member(&app.admin, developer)
                .await
                .unwrap(),
            "demoted" => {
                let changed = app.control.change_role(&app.admin, developer, Role::User);
                changed.await.unwrap();
            }
            "key revoked" => {
                let all = control::api_keys::Whose::Everyones;
                for key in app.control.api_keys(&app.admin, all).await.unwrap() {
                    if key.user_id == developer {
                        app.control
                            .revoke_api_key(&app.admin, key.api_key_id)
                            .await
                            .unwrap();
                    }
                }
            }
            _ => {
                let path = format!("/fn/{}", way.replace("signed", "sign").replace(' ', "-"));
                let call = self.doors.post(&path).form(&[]);
                let gone = call.header("cookie", &self.cookie).send().await;
                assert!(
                    gone.status.is_success() || gone.status.is_redirection(),
                    "{gone:#?}"
                );
            }
        }
    }
}

#[tokio::test]
async fn a_terminal_ends_with_the_right_to_it_whatever_its_peers_do() {
    for way in WAYS {
        for (line, reads) in [("quiet\n", true), ("flood\n", true), ("flood\n", false)] {
            let held = Held::open().await;
            let mut socket = held.terminal(way == "key revoked").await;
            socket.send(Message::binary(line)).await.unwrap();
            let mut unread = None;
            let reading = if reads {
                Some(tokio::spawn(async move {
                    while let Some(Ok(_)) = socket.next().await {}
                }))
            } else {
                unread = Some(socket);
                None
            };
            held.lose(way).await;
            let app = &held.doors.app;
            // The connection ends. A terminal without one goes two minutes later, and only then.
            app.eventually(&format!("{way}, {line:?}, read: {reads}"), || async {
                app.clock.advance(Duration::from_secs(5));
                let over = match &reading {
                    Some(reading) => reading.is_finished(),
                    None => app.host.running() == 0,
                };
                over.then_some(())
            })
            .await;
            drop(unread);
        }
    }
}

#[tokio::test]
async fn a_terminal_goes_on_as_long_as_the_right_to_it_does() {
    for by_key in [true, false] {
        let held = Held::open().await;
        let mut socket = held.terminal(by_key).await;
        for round in 0..10 {
            held.doors.app.clock.advance(Duration::from_secs(30));
            let line = format!("round {round}\n");
            socket.send(Message::binary(line)).await.unwrap();
            shown(&mut socket, &format!("[round {round}]")).await;
        }
    }
}

#[tokio::test]
async fn a_streamed_and_a_collected_command_end_with_the_right_to_them() {
    for way in ["removed", "demoted", "key revoked"] {
        for (command, streams) in [
            ("spam 1000000000000", true),
            ("sleep", true),
            ("sleep", false),
        ] {
            let held = Held::open().await;
            let doors = &held.doors;
            let path = format!("/groundwork/v1/sessions/{}/exec", held.session);
            let accept = if streams {
                "text/event-stream"
            } else {
                "application/json"
            };
            let call = doors
                .post(&path)
                .bearer(&doors.developer)
                .header("accept", accept)
                .json(&json!({"command": command}));
            // Its answer is never read.
            let asking = tokio::spawn({
                let router = doors.router();
                call.detached(router)
            });
            let app = &doors.app;
            app.eventually("it runs", || async {
                (app.host.running() == 1).then_some(())
            })
            .await;
            held.lose(way).await;
            app.eventually(&format!("{way}, {command}, streams: {streams}"), || async {
                app.clock.advance(Duration::from_secs(5));
                (app.host.killed() == 1).then_some(())
            })
            .await;
            let answer = asking.await.unwrap();
            if !streams {
                let expected = if way == "demoted" { 403 } else { 401 };
                assert_eq!(answer.status(), expected);
            }
        }
    }
}

#[tokio::test]
async fn frames_that_are_too_large_end_the_connection_and_nonsense_changes_nothing() {
    let held = Held::open().await;
    let mut socket = held.terminal(false).await;
    let deep = "[".repeat(100_000);
    for nonsense in [
        "",
        "null",
        "{",
        &deep,
        r#"{"type":"resize","cols":70000,"rows":1}"#,
        r#"{"type":"resize","cols":-1,"rows":1}"#,
        r#"{"type":"resize","cols":"80","rows":1}"#,
        r#"{"type":"resize","cols":80}"#,
        r#"{"type":"resize","cols":80,"rows":24,"more":1}"#,
        r#"{"type":"kill"}"#,
    ] {
        socket.send(Message::text(nonsense)).await.unwrap();
    }
    let huge = r#"{"type":"resize","cols":65535,"rows":0}"#;
    socket.send(Message::text(huge)).await.unwrap();
    socket
        .send(Message::binary(&b"\xff\xfe\0\x1b[6n\n"[..]))
        .await
        .unwrap();
    loop {
        if let Message::Binary(bytes) = socket.next().await.unwrap().unwrap() {
            assert_eq!(&bytes[..], b"[\xff\xfe\0\x1b[6n]\r\n");
            break;
        }
    }
    let sizes = held.doors.app.host.sizes();
    assert_eq!(sizes, [(80, 24), (1_000, 1)]);
    let large = vec![b'x'; (1 << 20) + 1];
    let sent = socket.send(Message::binary(large)).await;
    let mut ended = sent.is_err();
    while let Some(message) = socket.next().await {
        ended |= message.is_err() || matches!(message, Ok(Message::Close(_)));
    }
    assert!(ended);
    for query in [
        "cols=0",
        "rows=1001",
        "cols=x",
        "cols=65536",
        "terminal_id=x",
        "more=1",
    ] {
        let path = format!("/groundwork/v1/sessions/{}/terminal?{query}", held.session);
        let answer = held
            .doors
            .get(&path)
            .bearer(&held.doors.developer)
            .send()
            .await;
        answer.refused(400, "invalid_request");
    }
}

#[tokio::test]
async fn who_comes_back_is_told_how_much_was_shown_before() {
    let held = Held::open().await;
    let address = listen(held.doors.router()).await;
    let connect = async |query: String| {
        let url = format!(
            "ws://{address}/groundwork/v1/sessions/{}/terminal{query}",
            held.session
        );
        let mut request = url.into_client_request().unwrap();
        let bearer = format!("Bearer {}", held.doors.developer);
        request
            .headers_mut()
            .insert("authorization", bearer.parse().unwrap());
        tokio_tungstenite::connect_async(request).await.unwrap().0
    };
    let mut socket = connect(String::new()).await;
    let hello = said(&mut socket).await;
    assert_eq!(hello["replayed_bytes"], 0);
    // Asks the terminal where its cursor is: whoever shows it again must not answer again.
    socket.send(Message::binary("\x1b[6n\n")).await.unwrap();
    shown(&mut socket, "\x1b[6n").await;
    let terminal = hello["terminal_id"].as_str().unwrap();
    let mut again = connect(format!("?terminal_id={terminal}")).await;
    let hello = said(&mut again).await;
    assert_eq!(hello["replayed_bytes"], "[\x1b[6n]\r\n".len());
}
