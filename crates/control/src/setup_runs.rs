//! Setup runs: start, list, read, log, cancel.

use std::time::Duration;

use domain::{
    ids::{EnvironmentId, SetupRunId},
    limits,
    network_policy::NetworkPolicy,
    roles::{Action, permits},
    setup_run::{Command, Kind, LogLine, Refusal, RunState, Status},
};
use serde_json::json;
use wire::managed_agents::{LogPage, SetupRun, SetupRunList};

use crate::{
    Control, Error, Keyed, Member, OpCtx, Outcome, RACES_MAX, Result,
    ending::conclude,
    environments::system_line,
    idempotency::ReceiptMaker,
    log_reading::removal_note,
    ports::{
        Admission, Effects, RunChange, StoreError, Topic, Written,
        rows::{EnvironmentRow, LogCounters, RunRecord, SetupRunRow},
    },
    view,
};

/// Which page of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LogQuery {
    /// Lines with a larger `seq`; 0: from the beginning.
    pub after: u64,
    /// At most this many, 1 to 2,000; 500 unless given.
    pub limit: Option<u32>,
    /// Hold the answer this long while there is nothing new, 0 to 60; held at most 5 s.
    pub wait_seconds: Option<u32>,
}

/// A reader that waits, and for whom there is nothing but an open line, gets it at this pace.
const OPEN_LINE_PACE: Duration = Duration::from_secs(1);

/// How long to hold an answer.
pub(crate) fn held(wait_seconds: Option<u32>) -> Result<Duration> {
    let wait = wait_seconds.unwrap_or(0);
    if wait > limits::WAIT_SECONDS_MAX {
        return Err(Error::invalid_field(
            "wait_seconds",
            format!("Must be 0 to {}.", limits::WAIT_SECONDS_MAX),
        ));
    }
    Ok(Duration::from_secs(u64::from(
        wait.min(limits::WAIT_SECONDS_HELD_MAX),
    )))
}

fn within(name: &str, given: Option<u32>, default: u32, most: u32) -> Result<u32> {
    let value = given.unwrap_or(default);
    if (1..=most).contains(&value) {
        Ok(value)
    } else {
        Err(Error::invalid_field(name, format!("Must be 1 to {most}.")))
    }
}

/// Which access the run has, for the first line of its log.
fn access_note(policy: &NetworkPolicy) -> String {
    match policy {
        NetworkPolicy::Unrestricted => "internet access to every host".to_owned(),
        NetworkPolicy::Rules(_) if policy.is_closed() => "no internet access".to_owned(),
        NetworkPolicy::Rules(rules) if rules.len() == 1 => "internet access by 1 rule".to_owned(),
        NetworkPolicy::Rules(rules) => format!("internet access by {} rules", rules.len()),
    }
}

impl Control {
    /// The only way to a run's row: one of an environment that the caller may do this with.
    pub(crate) async fn load_run(
        &self,
        ctx: &OpCtx,
        environment: EnvironmentId,
        run: SetupRunId,
        action: Action,
    ) -> Result<(EnvironmentRow, SetupRunRow)> {
        let member = ctx.member()?;
        // The existence of the run comes before the role: a run that is not there answers alike for every role.
        let row = self
            .load_environment(ctx, environment, Action::ReadEnvironments)
            .await?;
        let run = match self.0.store.run(run).await? {
            Some(run)
                if run.environment_id == environment
                    && run.organization_id == member.organization_id =>
            {
                run
            }
            _ => return Err(Error::not_found()),
        };
        ctx.require(action)?;
        Ok((row, run))
    }

    /// Starts a manual run. REST requires the key ([`Error::idempotency_key_required`]); the console may leave it out.
    pub async fn start_setup_run(
        &self,
        ctx: &OpCtx,
        environment: EnvironmentId,
        key: Option<Keyed>,
    ) -> Result<Outcome<SetupRun>> {
        let member = ctx.member()?.clone();
        if !permits(member.role, Action::TestEnvironments) {
            // Tells 404 from 403.
            self.load_environment(ctx, environment, Action::TestEnvironments)
                .await?;
        }
        let (control, ctx) = (self.clone(), ctx.clone());
        self.keyed(member.organization_id, key, 202, move |maker| async move {
            control.admit(&ctx, &member, environment, &maker).await
        })
        .await
    }

    async fn admit(
        &self,
        ctx: &OpCtx,
        member: &Member,
        id: EnvironmentId,
        maker: &ReceiptMaker,
    ) -> Result<SetupRun> {
        for _ in 0..RACES_MAX {
            let row = self
                .load_environment(ctx, id, Action::TestEnvironments)
                .await?;
            if !row.definition.has_script() {
                return Err(Error::invalid_field(
                    "setup.script",
                    "The environment has no setup script, so there is nothing to test. Save a script first.",
                ));
            }
            let offered = &self.0.catalog.providers;
            if !offered
                .iter()
                .any(|provider| provider.provider == row.definition.provider)
            {
                return Err(Error::sandbox_provider_disabled(&row.definition.provider));
            }
            let run = self.new_run(member, &row).await?;
            let mut tested = row.clone();
            tested.version += 1;
            tested.verification = row
                .verification
                .run_started(run.setup_run_id, &run.fingerprint);
            let first = LogLine {
                seq: 1,
                ..system_line(
                    run.created_at,
                    format!(
                        "Queued by {}: revision {}, {}. Waiting for a worker.",
                        member.email,
                        row.revision,
                        access_note(&row.definition.network_policy)
                    ),
                )
            };
            // As it will be once the first line is stored with it.
            let mut admitted = run.clone();
            admitted.log = LogCounters {
                lines: 1,
                bytes: first.text.len() as u64,
                ..LogCounters::default()
            };
            let answer = view::run(&admitted);
            let fx = Effects {
                receipt: maker.receipt(self, &answer)?,
                audit: vec![self.audit(
                    ctx,
                    row.organization_id,
                    "setup_run.start",
                    run.setup_run_id,
                    json!({"environment_id": id, "revision": row.revision}),
                )],
                revision: None,
            };
            let admission = self
                .0
                .store
                .admit_run(
                    &run,
                    &first,
                    row.version,
                    &tested,
                    limits::MANUAL_RUNS_IN_FLIGHT_MAX,
                    fx,
                )
                .await
                .map_err(|error| match error {
                    StoreError::Unavailable(_) => Error::setup_run_not_started(error),
                    other => other.into(),
                })?;
            match admission {
                Admission::Admitted => {
                    self.waits(run.setup_run_id);
                    return Ok(answer);
                }
                Admission::Stale => {}
                Admission::InProgress(other) => return Err(Error::setup_run_in_progress(other)),
                Admission::LimitReached(runs) => return Err(Error::setup_run_limit(&runs)),
            }
        }
        Err(Error::setup_run_not_started(
            "the environment kept changing",
        ))
    }

    /// A run that nobody has admitted yet.
    pub(crate) async fn new_run(
        &self,
        member: &Member,
        row: &EnvironmentRow,
    ) -> Result<SetupRunRow> {
        let last = self.0.store.runs(row.environment_id, 1).await?;
        Ok(SetupRunRow {
            organization_id: row.organization_id,
            environment_id: row.environment_id,
            setup_run_id: self.0.ids.next(),
            kind: Kind::Manual,
            state: RunState::queued(),
            version: 1,
            requested_by: member.user_id,
            session_id: None,
            definition: row.definition.clone(),
            fingerprint: view::fingerprint_of(row),
            record: RunRecord {
                message: "Waiting for a worker.".to_owned(),
                secret_hashes: row.secret_hashes.clone(),
                image_generation: last
                    .first()
                    .map_or(0, |previous| previous.record.image_generation),
                ..RunRecord::default()
            },
            worker_id: None,
            log: LogCounters::default(),
            created_at: self.0.clock.now(),
            started_at: None,
            finished_at: None,
        })
    }

    /// Newest first; 1 to 50, 50 unless given.
    pub async fn list_setup_runs(
        &self,
        ctx: &OpCtx,
        environment: EnvironmentId,
        limit: Option<u32>,
    ) -> Result<SetupRunList> {
        self.load_environment(ctx, environment, Action::ReadEnvironments)
            .await?;
        let limit = within("limit", limit, limits::RUN_LIST_MAX, limits::RUN_LIST_MAX)?;
        let runs = self.0.store.runs(environment, limit).await?;
        Ok(SetupRunList {
            setup_runs: runs.iter().map(view::run).collect(),
        })
    }

    /// One run; with `wait_seconds` (0 to 60, held at most 5 s) until it has ended.
    pub async fn get_setup_run(
        &self,
        ctx: &OpCtx,
        environment: EnvironmentId,
        run: SetupRunId,
        wait_seconds: Option<u32>,
    ) -> Result<SetupRun> {
        let end = self.0.clock.monotonic() + held(wait_seconds)?;
        let mut bell = self.0.bell.listen(Topic::Run(run));
        loop {
            bell.mark_unchanged();
            let (_, row) = self
                .load_run(ctx, environment, run, Action::ReadEnvironments)
                .await?;
            let left = end.saturating_sub(self.0.clock.monotonic());
            if row.state.status.is_terminal() || left.is_zero() {
                return Ok(view::run(&row));
            }
            self.rung(&mut bell, left).await;
        }
    }

    /// Waits for a bell, at most this long: enough for what is held for seconds, and looks once more at its end anyway.
    async fn rung(&self, bell: &mut tokio::sync::watch::Receiver<u64>, at_most: Duration) {
        tokio::select! {
            rung = bell.changed() => {
                if rung.is_err() {
                    // Nobody can ring any more: only the time is left, and without it this would spin.
                    self.0.clock.sleep(at_most).await;
                }
            }
            () = self.0.clock.sleep(at_most) => {}
        }
    }

    /// Waits for a bell, at most this long, and looks again now and then even if none rings.
    pub(crate) async fn wait(
        &self,
        bell: &mut tokio::sync::watch::Receiver<u64>,
        at_most: Duration,
    ) {
        self.rung(bell, at_most.min(self.0.config.backup_poll))
            .await;
    }

    /// A page of its log; of one that was removed a note that says so and when.
    pub async fn setup_run_log(
        &self,
        ctx: &OpCtx,
        environment: EnvironmentId,
        run: SetupRunId,
        query: LogQuery,
    ) -> Result<LogPage> {
        let limit = within(
            "limit",
            query.limit,
            limits::LOG_PAGE_DEFAULT,
            limits::LOG_PAGE_MAX,
        )?;
        let begun = self.0.clock.monotonic();
        let end = begun + held(query.wait_seconds)?;
        let pace = begun + OPEN_LINE_PACE;
        let mut open_text: Option<String> = None;
        let mut bell = self.0.bell.listen(Topic::Run(run));
        loop {
            bell.mark_unchanged();
            // The state is read before the lines: when it says that the run has ended, the lines are all there.
            let (_, row) = self
                .load_run(ctx, environment, run, Action::ReadEnvironments)
                .await?;
            let mut lines = self.0.store.log_lines(run, query.after, limit).await?.lines;
            if row.log.removed_at.is_some() {
                lines = removal_note(&row.log, query.after).into_iter().collect();
            }
            let over = row.state.status.is_terminal();
            let open = row.log.open.filter(|_| !over);
            let mut left = end.saturating_sub(self.0.clock.monotonic());
            // Nothing but an open line: the caller may have had it already, and would come back at once for ever.
            let only_open = lines.first().filter(|first| Some(first.seq) == open);
            let news = match only_open {
                None => !lines.is_empty(),
                Some(line) => {
                    let before = open_text.replace(line.text.clone());
                    left = left.min(pace.saturating_sub(self.0.clock.monotonic()));
                    before.is_some_and(|before| before != line.text)
                }
            };
            if news || over || left.is_zero() {
                let last = lines.last().map_or(query.after, |last| last.seq);
                return Ok(LogPage {
                    // An open line comes again until it is whole.
                    next_after: match open {
                        Some(open) if query.after < open && open <= last => open - 1,
                        _ => last,
                    },
                    lines,
                    status: row.state.status,
                    truncated: row.log.truncated.then_some(true),
                });
            }
            self.rung(&mut bell, left).await;
        }
    }

    /// Asks for it to be stopped. One that waits ends at once; one that a worker drives ends when its compute is gone.
    pub async fn cancel_setup_run(
        &self,
        ctx: &OpCtx,
        environment: EnvironmentId,
        run: SetupRunId,
    ) -> Result<SetupRun> {
        for _ in 0..RACES_MAX {
            let (env, row) = self
                .load_run(ctx, environment, run, Action::TestEnvironments)
                .await?;
            if row.kind == Kind::Session {
                return Err(Error::invalid_request(
                    "This run belongs to a session. Stop the session instead.",
                ));
            }
            let state = match row.state.decide(&Command::RequestCancel) {
                Ok(state) => state,
                Err(Refusal::Finished(status)) => return Err(Error::setup_run_finished(status)),
                Err(refusal) => return Err(Error::internal(refusal)),
            };
            if state == row.state {
                // Asked for already.
                return Ok(view::run(&row));
            }
            let now = self.0.clock.now();
            let text = "Cancelled before a worker took it.";
            let mut next = row.clone();
            next.version += 1;
            next.state = state;
            let ended = next.state.status == Status::Cancelled;
            if ended {
                next.finished_at = Some(now);
                next.record.message = text.to_owned();
            }
            let verdict = conclude(&next, Some(&env), now);
            let line = system_line(now, text);
            let fx = Effects {
                audit: vec![self.audit(
                    ctx,
                    row.organization_id,
                    "setup_run.cancel",
                    run,
                    json!({"environment_id": environment}),
                )],
                ..Effects::default()
            };
            let written = self
                .0
                .store
                .update_run(
                    RunChange {
                        expected: row.version,
                        row: &next,
                        // While a worker drives the run, the worker numbers its lines.
                        system_line: ended.then_some(&line),
                    },
                    verdict.as_ref().map(|after| (env.version, after)),
                    fx,
                )
                .await?;
            if written == Written::Done {
                if ended {
                    self.not_waiting(run);
                }
                self.0.bell.ring(Topic::Orders);
                // With the counters as stored, after the note.
                let (_, row) = self
                    .load_run(ctx, environment, run, Action::TestEnvironments)
                    .await?;
                return Ok(view::run(&row));
            }
        }
        Err(Error::unavailable("the run kept changing"))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn waits_are_held_at_most_five_seconds() {
        assert_eq!(held(None).unwrap(), Duration::ZERO);
        for (asked, seconds) in [(0, 0), (3, 3), (5, 5), (60, 5)] {
            assert_eq!(held(Some(asked)).unwrap(), Duration::from_secs(seconds));
        }
        assert!(held(Some(61)).is_err());
    }
}
