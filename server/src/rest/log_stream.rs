//! A run's log as server-sent events: `line`, `status`, `end`, and `error` when the viewer lost access. The id of an
//! event is the last `seq` sent, with a mark of its text where that line may still change, so that a client that comes
//! back with `Last-Event-ID` goes on where it was and misses no change.

use std::{convert::Infallible, time::Duration};

use axum::{
    extract::State,
    response::{
        IntoResponse, Response, Sse,
        sse::{Event, KeepAlive},
    },
};
use control::{
    Control, OpCtx,
    live::{Seen, mark},
    setup_runs::LogQuery,
};
use domain::{
    ids::{EnvironmentId, SetupRunId},
    limits::SAFE_INTEGER_MAX,
    setup_run::{LogLine, Stream},
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
    let seen = match headers.get("last-event-id") {
        None => Seen {
            seq: given,
            mark: None,
        },
        Some(value) => value.to_str().ok().and_then(seen).ok_or_else(|| {
            Problem::invalid(
                "Last-Event-ID",
                "Last-Event-ID: send the id of the last event that came.",
            )
        })?,
    };
    let frames = state
        .control
        .follow_setup_run_from(ctx.clone(), environment, run, seen)
        .await?;
    let teller = Teller {
        control: state.control.clone(),
        ctx,
        environment,
        run,
        seen,
        told: None,
        ended: false,
        removed: false,
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

/// The id of an event: `SEQ`, or `SEQ-MARK` in hexadecimal digits.
fn id(seen: Seen) -> String {
    match seen.mark {
        None => seen.seq.to_string(),
        Some(mark) => format!("{}-{mark:08x}", seen.seq),
    }
}

/// What an id says.
fn seen(id: &str) -> Option<Seen> {
    let (seq, mark) = match id.split_once('-') {
        None => (id, None),
        Some((seq, mark)) => (seq, Some(u32::from_str_radix(mark, 16).ok()?)),
    };
    let seq = seq.parse().ok()?;
    Some(Seen { seq, mark })
}

/// Turns frames into events.
struct Teller {
    control: Control,
    ctx: OpCtx,
    environment: EnvironmentId,
    run: SetupRunId,
    /// What was sent last.
    seen: Seen,
    /// Whether the run has ended, so that no line changes any more.
    ended: bool,
    /// Whether its log was removed.
    removed: bool,
    /// Version of the run that was sent last, and whether its log was cut and removed, which the version does not tell.
    told: Option<(i64, bool, bool)>,
}

impl Teller {
    async fn tell(&mut self, frame: Frame) -> Vec<Event> {
        match frame {
            Frame::Lines(lines) => {
                let last = lines.len().saturating_sub(1);
                lines
                    .iter()
                    .enumerate()
                    .map(|(n, line)| {
                        // A line is whole as soon as another follows it.
                        self.line(line, n == last)
                    })
                    .collect()
            }
            Frame::State(view) => {
                self.removed = view.log.removed_at.is_some();
                let now = Some((view.version, view.log.truncated, self.removed));
                if self.told == now {
                    return Vec::new();
                }
                self.told = now;
                self.ended = view.status.is_terminal();
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
            Frame::End => {
                let mut events = self.what_stands_for_a_removed_log().await;
                events.push(self.event("end", &json!({"next_after": self.seen.seq})));
                events
            }
            Frame::Stopped(message) => vec![self.event("error", &json!({"message": message}))],
        }
    }

    /// A reader of pages gets a note in the place of a log that was removed; so does whoever follows one.
    async fn what_stands_for_a_removed_log(&mut self) -> Vec<Event> {
        if !self.removed {
            return Vec::new();
        }
        let query = LogQuery {
            after: self.seen.seq,
            ..LogQuery::default()
        };
        let page = self
            .control
            .setup_run_log(&self.ctx, self.environment, self.run, query)
            .await;
        match page {
            Ok(page) => page
                .lines
                .iter()
                .map(|line| self.line(line, false))
                .collect(),
            Err(error) => vec![self.event("error", error.api())],
        }
    }

    fn line(&mut self, line: &LogLine, is_last: bool) -> Event {
        let may_change =
            is_last && !self.ended && matches!(line.stream, Stream::Stdout | Stream::Stderr);
        self.seen = Seen {
            seq: line.seq,
            mark: may_change.then(|| mark(&line.text)),
        };
        self.event("line", line)
    }

    fn event(&self, name: &str, data: &impl serde::Serialize) -> Event {
        let event = Event::default().event(name).id(id(self.seen));
        match event.json_data(data) {
            Ok(event) => event,
            Err(error) => {
                tracing::error!(cause = %error, "an event could not be written");
                Event::default().event("error").data("{}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_says_what_was_seen() {
        for (text, seq, mark) in [
            ("0", 0, None),
            ("17", 17, None),
            ("17-00000a0f", 17, Some(0xa0f)),
        ] {
            let found = seen(text).unwrap();
            assert_eq!(found, Seen { seq, mark });
            assert_eq!(id(found), text);
        }
        for wrong in ["", "x", "-1", "1-", "1-xyz", "1-2-3", "1-1ffffffff"] {
            assert_eq!(seen(wrong), None, "{wrong}");
        }
    }
}
