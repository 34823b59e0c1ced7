//! `groundwork test`: starts a setup run, follows its log, ends as the script did.

use std::{
    io::{self, IsTerminal},
    time::Duration,
};

use domain::setup_run::LogLine;
use http::Method;
use serde_json::Value;

use super::{
    args::{Output, TestArgs},
    environments::{find, fresh_key},
    events::Events,
    failure::{Failure, INTERRUPTED, Result},
    http::Client,
    interrupts::Interrupts,
    log::Printer,
    print::{ask, json as print_json, note, out, plain},
};

/// Exit code where the run failed without an exit code of the script: a fault of the sandbox or of the server.
const NO_CODE: u8 = 125;
/// Times that a lost connection is made again without anything coming in between.
const TRIES: u32 = 60;

/// Runs it.
pub async fn run(args: TestArgs) -> Result<u8> {
    let client = Client::new(&args.remote)?;
    let environment = find(&client, &args.environment).await?;
    let id = environment["environment_id"].as_str().unwrap_or_default();
    let runs = format!("/managed-agents/v1/environments/{id}/setup-runs");
    let key = fresh_key();
    let started = client
        .send(Method::POST, &runs, None, Some(&key))
        .await
        .map_err(|failure| in_flight(failure, id))?;
    let run = started["setup_run_id"]
        .as_str()
        .unwrap_or_default()
        .to_owned();
    if !args.follow {
        match args.remote.output {
            Output::Json => print_json(&started)?,
            Output::Table => out(&format!("{run}\n"))?,
        }
        return Ok(0);
    }
    let mut interrupts = Interrupts::listen()?;
    note(&format!(
        "Setup run {run} of {}",
        plain(environment["name"].as_str().unwrap_or_default())
    ));
    let follower = Follower {
        client,
        environment: id.to_owned(),
        run,
    };
    let mut printer = Printer::stdout(args.color);
    let finished = follower.to_the_end(&mut printer, &mut interrupts).await?;
    printer.finish()?;
    let Some(finished) = finished else {
        return Ok(INTERRUPTED);
    };
    if args.remote.output == Output::Json {
        // The log is on standard output; the run for programs comes after it, on a line of its own.
        out(&format!("{finished}\n"))?;
    }
    Ok(summary(&finished))
}

fn in_flight(failure: Failure, environment: &str) -> Failure {
    let answer = failure.answer.as_ref();
    match answer.and_then(|answer| answer["details"]["setup_run_id"].as_str()) {
        Some(run) => Failure {
            message: format!(
                "A setup run of this environment is in flight already: {run}. Wait for it, or cancel it in the console \
                 or with POST /managed-agents/v1/environments/{environment}/setup-runs/{run}/cancel."
            ),
            ..failure
        },
        None => failure,
    }
}

/// Says how the run ended, and with which code to end.
fn summary(run: &Value) -> u8 {
    let text = |field: &str| run[field].as_str().map(plain).unwrap_or_default();
    let seconds = run["duration_ms"].as_i64().unwrap_or_default() as f64 / 1_000.0;
    match run["status"].as_str() {
        Some("succeeded") => {
            if run["imageCapture"].is_object() {
                note(&format!(
                    "Setup passed, but its reusable image failed. {}",
                    run["imageCapture"]["message"]
                        .as_str()
                        .map(plain)
                        .unwrap_or_default()
                ));
            } else {
                note(&format!("Setup verified in {seconds:.1} s."));
            }
            0
        }
        Some("cancelled") => {
            note("Cancelled.");
            INTERRUPTED
        }
        _ => {
            let code = run["exit_code"].as_i64();
            let mut said = match run["failed_line"].as_u64().filter(|line| *line > 0) {
                Some(line) => format!("Failed at line {line}: {}", text("failed_command")),
                None => format!("Failed. {}", text("message")),
            };
            if let Some(code) = code {
                said.push_str(&format!(" (exit code {code}, {seconds:.1} s)"));
            }
            note(&said);
            if !text("hint").is_empty() {
                note(&text("hint"));
            }
            match code.map(u8::try_from) {
                Some(Ok(code)) if code != 0 => code,
                _ => NO_CODE,
            }
        }
    }
}

/// What comes of waiting.
enum News {
    Bytes(Option<Vec<u8>>),
    Interrupt,
}

struct Follower {
    client: Client,
    environment: String,
    run: String,
}

impl Follower {
    fn path(&self) -> String {
        format!(
            "/managed-agents/v1/environments/{}/setup-runs/{}",
            self.environment, self.run
        )
    }

    /// Follows until the run has ended, over lost connections; `None`: given up by the reader. The run as it ended.
    async fn to_the_end<W: io::Write>(
        &self,
        printer: &mut Printer<W>,
        interrupts: &mut Interrupts,
    ) -> Result<Option<Value>> {
        let mut lost = 0;
        loop {
            let path = format!(
                "/groundwork/v1/environments/{}/setup-runs/{}/log/stream?after={}",
                self.environment,
                self.run,
                printer.after()
            );
            let stream = [("accept", "text/event-stream")];
            let opened = tokio::select! {
                opened = self.client.answer(Method::GET, &path, None, None, &stream) => opened,
                () = interrupts.next() => {
                    if self.interrupted(interrupts).await? {
                        return Ok(None);
                    }
                    continue;
                }
            };
            match opened {
                Ok(response) => match self.read(response, printer, interrupts, &mut lost).await? {
                    Ended::Whole => return self.client.get(&self.path()).await.map(Some),
                    Ended::GivenUp => return Ok(None),
                    Ended::Lost => {}
                },
                // A refusal stays one; only what may pass is tried again.
                Err(failure) if failure.status.is_some_and(|status| status < 500) => {
                    return Err(failure);
                }
                Err(failure) if lost >= TRIES => return Err(failure),
                Err(_) => {}
            }
            lost += 1;
            if lost == 1 && io::stderr().is_terminal() {
                note("\nThe connection was lost; trying again …");
            }
            let wait = Duration::from_millis(200 * u64::from(lost.min(10)));
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                () = interrupts.next() => if self.interrupted(interrupts).await? { return Ok(None) },
            }
        }
    }

    async fn read<W: io::Write>(
        &self,
        mut response: reqwest::Response,
        printer: &mut Printer<W>,
        interrupts: &mut Interrupts,
        lost: &mut u32,
    ) -> Result<Ended> {
        let mut events = Events::default();
        loop {
            let news = tokio::select! {
                chunk = response.chunk() => News::Bytes(chunk.ok().flatten().map(|bytes| bytes.to_vec())),
                () = interrupts.next() => News::Interrupt,
            };
            let bytes = match news {
                News::Bytes(Some(bytes)) => bytes,
                News::Bytes(None) => return Ok(Ended::Lost),
                News::Interrupt => {
                    printer.finish()?;
                    if self.interrupted(interrupts).await? {
                        return Ok(Ended::GivenUp);
                    }
                    continue;
                }
            };
            for event in events.push(&bytes) {
                match event.name.as_str() {
                    "line" => {
                        let line: LogLine = serde_json::from_str(&event.data).map_err(|error| {
                            Failure::new(format!(
                                "The server sent a line that cannot be read ({error})."
                            ))
                        })?;
                        printer.line(&line)?;
                        *lost = 0;
                    }
                    "end" => return Ok(Ended::Whole),
                    "error" => {
                        let error: Value = serde_json::from_str(&event.data).unwrap_or_default();
                        return Err(Failure::refused(403, error));
                    }
                    _ => {}
                }
            }
        }
    }

    /// Ctrl-C: on a terminal, asks whether to cancel the run or to leave it; without one, leaves it. Whether to stop following.
    async fn interrupted(&self, interrupts: &mut Interrupts) -> Result<bool> {
        let leave = format!(
            "The run goes on. Cancel it in the console, or with POST {}/cancel.",
            self.path()
        );
        if !io::stdin().is_terminal() {
            note(&leave);
            return Ok(true);
        }
        let question = "\nCancel the run (c), leave it running and stop following (l), or go on following (Enter)? ";
        // Reading blocks; a second Ctrl-C meanwhile leaves.
        let answer = tokio::select! {
            answer = tokio::task::spawn_blocking(move || ask(question)) => match answer {
                Ok(answer) => answer?,
                Err(_) => String::new(),
            },
            () = interrupts.next() => "l".to_owned(),
        };
        match answer.to_lowercase().as_str() {
            "c" | "cancel" => {
                let cancelled = self
                    .client
                    .send(Method::POST, &format!("{}/cancel", self.path()), None, None)
                    .await;
                match cancelled {
                    Ok(_) => note("Cancelling …"),
                    // It ended meanwhile: the rest of the log comes anyway.
                    Err(failure) if failure.status == Some(409) => {}
                    Err(failure) => return Err(failure),
                }
                Ok(false)
            }
            "l" | "leave" => {
                note(&leave);
                Ok(true)
            }
            _ => Ok(false),
        }
    }
}

/// How a stream ended.
enum Ended {
    /// Every line came.
    Whole,
    /// The connection broke.
    Lost,
    /// The reader stopped it.
    GivenUp,
}
