//! A run's log as server-sent events: `line`, `status`, `end`, and `error` when the viewer lost access. The id of an
//! event is the last `seq` sent, so that a client that comes back with `Last-Event-ID` goes on where it was.

use std::{convert::Infallible, time::Duration};

use axum::{
    extract::State,
    response::{
        IntoResponse, Response, Sse,
        sse::{Event, KeepAlive},
    },
};
use control::{Control, OpCtx};
use domain::{
    ids::{EnvironmentId, SetupRunId},
    limits::SAFE_INTEGER_MAX,
};
use futures::{StreamExt, stream};
use http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::json;
use wire::console::Frame;

use super::extract::{Ctx, OfRun, Query};
use crate::http::{AppState, problem::Problem};

/// A comment goes out when nothing else did for this long, so that no proxy takes the connection for dead.
pub const KEEP_ALIVE: Duration = Duration::from_secs(10);

/// `GET …/log/stream?after=`
pub async fn stream(
    State(state): State<AppState>,
    Ctx(ctx): Ctx,
    OfRun(environment, run): OfRun,
    query: Query,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let query = query.only(&["after"])?;
    let given = query
        .number("after", 0, SAFE_INTEGER_MAX.unsigned_abs())?
        .unwrap_or_default();
    // What the client has seen last wins over what it began with.
    let after = match headers.get("last-event-id") {
        None => given,
        Some(value) => value
            .to_str()
            .ok()
            .and_then(|text| text.parse::<u64>().ok())
            .ok_or_else(|| {
                Problem::invalid(
                    "Last-Event-ID",
                    "Last-Event-ID: send the id of the last event that came.",
                )
            })?,
    };
    let frames = state
        .control
        .follow_setup_run(ctx.clone(), environment, run, after)
        .await?;
    let teller = Teller {
        control: state.control.clone(),
        ctx,
        environment,
        run,
        after,
        version: None,
    };
    let events = stream::unfold((frames, teller), |(mut frames, mut teller)| async move {
        let frame = frames.next().await?;
        let events = teller.tell(frame).await;
        Some((
            stream::iter(events.into_iter().map(Ok::<_, Infallible>)),
            (frames, teller),
        ))
    })
    .flatten()
    .take_until(state.stop.clone().cancelled_owned());
    let mut response = Sse::new(events)
        .keep_alive(KeepAlive::new().interval(KEEP_ALIVE))
        .into_response();
    response.headers_mut().insert(
        HeaderName::from_static("x-accel-buffering"),
        HeaderValue::from_static("no"),
    );
    Ok(response)
}

/// Turns frames into events.
struct Teller {
    control: Control,
    ctx: OpCtx,
    environment: EnvironmentId,
    run: SetupRunId,
    /// Last `seq` sent.
    after: u64,
    /// Of the run that was sent last.
    version: Option<i64>,
}

impl Teller {
    async fn tell(&mut self, frame: Frame) -> Vec<Event> {
        match frame {
            Frame::Lines(lines) => lines
                .iter()
                .map(|line| {
                    self.after = line.seq;
                    self.event("line", line)
                })
                .collect(),
            Frame::State(view) => {
                if self.version == Some(view.version) {
                    return Vec::new();
                }
                self.version = Some(view.version);
                // The API's own shape of a run, not the console's.
                match self
                    .control
                    .get_setup_run(&self.ctx, self.environment, self.run, None)
                    .await
                {
                    Ok(run) => vec![self.event("status", &run)],
                    Err(error) => vec![self.event("error", error.api())],
                }
            }
            Frame::Beat => vec![Event::default().comment("beat")],
            Frame::End => vec![self.event("end", &json!({"next_after": self.after}))],
            Frame::Stopped(message) => vec![self.event("error", &json!({"message": message}))],
        }
    }

    fn event(&self, name: &str, data: &impl serde::Serialize) -> Event {
        let event = Event::default().event(name).id(self.after.to_string());
        match event.json_data(data) {
            Ok(event) => event,
            Err(error) => {
                tracing::error!(cause = %error, "an event could not be written");
                Event::default().event("error").data("{}")
            }
        }
    }
}
