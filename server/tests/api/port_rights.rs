//! Who may pass a session's doors, how many at once, and that what passes ends with the right to it.

use std::time::Duration;

use axum::body::Body;
use domain::{limits::SESSION_PORT_CONNECTIONS_MAX, roles::Role};
use futures::StreamExt;
use http_body_util::BodyExt;
use tokio::task::JoinHandle;
use tokio_tungstenite::tungstenite::{client::IntoClientRequest, handshake::derive_accept_key};

use crate::{
    coverage::sign_in,
    port_attacks::{answering, ok, opened, place},
    sessions::{listen, running},
    support::{DEVELOPER, Doors, USER},
};

#[tokio::test]
async fn connections_through_one_sessions_doors_are_bounded() {
    let (doors, place) = opened().await;
    answering(&doors.app, |_| b"HTTP/1.1 200 OK\r\n\r\n".to_vec());
    let mut held = Vec::new();
    for _ in 0..SESSION_PORT_CONNECTIONS_MAX {
        held.push(doors.get(&place).open().await);
    }
    let refused = doors.get(&place).send().await;
    assert_eq!(refused.refused(429, "session_limit")["limit"], 128);
    held.pop();
    doors
        .app
        .eventually("there is room again", || async {
            (doors.get(&place).open().await.status() == 200).then_some(())
        })
        .await;
}

/// Reads a body until it ends or breaks off.
fn to_the_end(mut body: Body) -> JoinHandle<()> {
    tokio::spawn(async move { while let Some(Ok(_)) = body.frame().await {} })
}

#[tokio::test]
async fn what_is_open_through_a_door_ends_with_the_right_to_it() {
    for way in [
        "removed",
        "demoted",
        "signed out",
        "signed out everywhere",
        "too old",
        "stopped",
        "the server stops",
    ] {
        let doors = Doors::open().await;
        let session = running(&doors).await;
        let cookie = sign_in(&doors, DEVELOPER).await;
        let place = place(&doors, &session, &cookie).await;
        answering(&doors.app, |head| {
            let key = head
                .lines()
                .find_map(|line| line.strip_prefix("sec-websocket-key: "));
            match key {
                Some(key) => format!(
                    "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\n\
                     set-cookie: a=b\r\nsec-websocket-accept: {}\r\n\r\n",
                    derive_accept_key(key.as_bytes())
                ),
                None => "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\ndata: 1\n\n".to_owned(),
            }
            .into_bytes()
        });
        let address = listen(doors.router()).await;
        let request = format!("ws://{address}{place}")
            .into_client_request()
            .unwrap();
        let (mut socket, answer) = tokio_tungstenite::connect_async(request).await.unwrap();
        assert!(!answer.headers().contains_key("set-cookie"));
        let socket = tokio::spawn(async move { while let Some(Ok(_)) = socket.next().await {} });
        let streamed = doors.get(&place).open().await;
        assert_eq!(streamed.status(), 200);
        let streamed = to_the_end(streamed.into_body());
        let app = &doors.app;
        let developer = {
            let members = app.control.members(&app.admin).await.unwrap();
            let found = members.iter().find(|member| member.email == DEVELOPER);
            found.unwrap().user_id
        };
        let mut step = Duration::from_secs(5);
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
            "signed out" | "signed out everywhere" => {
                let path = format!("/fn/{}", way.replace("signed", "sign").replace(' ', "-"));
                let gone = doors
                    .post(&path)
                    .form(&[])
                    .header("cookie", &cookie)
                    .send()
                    .await;
                assert!(
                    gone.status.is_success() || gone.status.is_redirection(),
                    "{gone:#?}"
                );
            }
            "too old" => step = Duration::from_secs(3_600),
            "stopped" => {
                app.control
                    .stop_session(&app.admin, session.parse().unwrap())
                    .await
                    .unwrap();
            }
            _ => doors.stop.cancel(),
        }
        app.eventually(way, || async {
            app.clock.advance(step);
            (socket.is_finished() && streamed.is_finished()).then_some(())
        })
        .await;
        let again = doors.get(&place).open().await.status();
        assert!(
            way == "the server stops" || !again.is_success(),
            "{way}: {again}"
        );
    }
}

#[tokio::test]
async fn nobody_else_opens_a_sessions_doors() {
    let doors = Doors::open().await;
    let session = running(&doors).await;
    answering(&doors.app, |_| ok("inside"));
    let user = sign_in(&doors, USER).await;
    for (cookie, status) in [("", 401), (user.as_str(), 403)] {
        for path in ["http/", "http/a", "terminal"] {
            let address = format!("/sessions/{session}/{path}");
            let call = doors
                .get(&address)
                .header("cookie", cookie)
                .header("origin", "http://console.example")
                .header("host", "console.example");
            assert_eq!(call.send().await.status, status, "{path}");
        }
    }
}
