//! A session's terminal over a WebSocket: binary frames are bytes, text frames are JSON.
//!
//! From the client: `{"type":"resize","cols":120,"rows":40}`. To the client: first `{"type":"terminal","terminal_id":…,
//! "reattached":…,"replayed_bytes":…}`, at the end `{"type":"exit","exit_code":…}` or `{"type":"error","code":…,"message":…}`. Whoever comes
//! back with `?terminal_id=` within two minutes gets the last 64 KiB first.

use std::time::Duration;

use axum::{
    extract::{
        State,
        ws::{Message, WebSocket, WebSocketUpgrade, rejection::WebSocketUpgradeRejection},
    },
    response::Response,
};
use control::sessions::{Terminal, TerminalEvent, TerminalId};
use domain::process::PtySize;
use futures::{SinkExt, StreamExt, stream::SplitSink};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use wire::error::Code;

use super::{AppState, problem::Problem};
use crate::rest::extract::{Ctx, OfSession, Query};

/// A ping goes out this often, so that nothing on the way takes the connection for dead.
const PING_EVERY: Duration = Duration::from_secs(20);
/// A peer from which nothing came for this long, not even answers to pings, is gone.
const SILENT_MAX: Duration = Duration::from_secs(65);
/// How long a peer may take to hear why its connection ends.
const LAST_WORD: Duration = Duration::from_secs(2);
/// Bytes of one message from a client: what is pasted at once.
const MESSAGE_MAX: usize = 1024 * 1024;

/// What a client says in text.
#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
enum Said {
    Resize { cols: u16, rows: u16 },
}

/// `GET …/sessions/{session_id}/terminal?terminal_id=&cols=&rows=`
pub async fn terminal(
    State(state): State<AppState>,
    Ctx(ctx): Ctx,
    OfSession(id): OfSession,
    query: Query,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Result<Response, Problem> {
    let query = query.only(&["terminal_id", "cols", "rows"])?;
    let again = query.id::<TerminalId>("terminal_id")?;
    let size = PtySize {
        cols: query.number("cols", 1, 1_000)?.unwrap_or(80),
        rows: query.number("rows", 1, 1_000)?.unwrap_or(24),
    };
    // Whether the caller may comes before how it was asked.
    state.control.check_session_use(&ctx, id).await?;
    let upgrade = upgrade.map_err(|_| {
        Problem::new(
            Code::InvalidRequest,
            "This call is a WebSocket: connect with a WebSocket client.",
        )
    })?;
    let terminal = state.control.open_terminal(&ctx, id, again, size).await?;
    let stop = state.stop.clone();
    Ok(upgrade
        .max_message_size(MESSAGE_MAX)
        // One frame is kept whole before the message is looked at.
        .max_frame_size(MESSAGE_MAX)
        .on_upgrade(move |socket| serve(socket, terminal, stop)))
}

type Out = SplitSink<WebSocket, Message>;

async fn say(out: &mut Out, value: &Value) -> bool {
    out.send(Message::text(value.to_string())).await.is_ok()
}

async fn serve(socket: WebSocket, mut terminal: Terminal, stop: CancellationToken) {
    let (mut out, mut from) = socket.split();
    let hello = json!({
        "type": "terminal", "terminal_id": terminal.id().to_string(), "reattached": terminal.reattached,
        "replayed_bytes": terminal.replayed,
    });
    if !say(&mut out, &hello).await {
        return;
    }
    let (input, rights) = (terminal.input(), terminal.rights());
    let reading = async {
        while let Ok(Some(Ok(message))) = tokio::time::timeout(SILENT_MAX, from.next()).await {
            let goes_on = match message {
                Message::Binary(bytes) => input.send(bytes.to_vec()).await,
                Message::Text(text) => match serde_json::from_str::<Said>(&text) {
                    Ok(Said::Resize { cols, rows }) => input.resize(PtySize { cols, rows }).await,
                    // A newer client's word; it is no reason to lose the shell.
                    Err(_) => true,
                },
                Message::Close(_) => false,
                Message::Ping(_) | Message::Pong(_) => true,
            };
            if !goes_on {
                // Keep the end readable for whoever writes below.
                break;
            }
        }
    };
    let writing = async {
        let mut pings = tokio::time::interval(PING_EVERY);
        loop {
            tokio::select! {
                event = terminal.next() => match event {
                    TerminalEvent::Output(bytes) => {
                        if out.send(Message::binary(bytes)).await.is_err() {
                            break;
                        }
                    }
                    TerminalEvent::Exit(code) => {
                        say(&mut out, &json!({"type": "exit", "exit_code": code})).await;
                        break;
                    }
                    TerminalEvent::Over(error) => {
                        say(&mut out, &over(&error)).await;
                        break;
                    }
                },
                _ = pings.tick() => {
                    if out.send(Message::Ping(Vec::new().into())).await.is_err() {
                        break;
                    }
                }
            }
        }
        let _ = out.close().await;
    };
    let lost = tokio::select! {
        () = reading => return,
        () = writing => return,
        () = stop.cancelled() => return,
        // Beside the two: a peer that does not read holds the writing up.
        error = rights.lost() => error,
    };
    drop(terminal);
    let _ = tokio::time::timeout(LAST_WORD, say(&mut out, &over(&lost))).await;
}

fn over(error: &control::Error) -> Value {
    let api = error.api();
    json!({"type": "error", "code": api.code, "message": api.message})
}
