//! View models of the console's pages.

use std::cmp::Ordering;

use domain::{
    ids::{EnvironmentId, SetupRunId},
    limits,
    roles::{Action, permits},
    setup_run::{Kind, Phase, Status, Stream},
    timestamp::Timestamp,
    verification::SetupBadge,
};
use wire::console::{
    EnvironmentItem, EnvironmentPage, EnvironmentsTable, LogView, NewEnvironmentPage, PhaseStep,
    RunItem, RunPage, RunView, Sort, SortBy, StepState,
};

use crate::{
    Control, OpCtx, Result,
    catalog::show_size,
    members::Names,
    ports::rows::{EnvironmentRow, SetupRunRow},
    sessions::startable_view,
    view::{self, fingerprint_of},
};

/// Lines read back from a log's end to find the script line that runs.
const TAIL_LINES: u32 = 200;

/// The last characters of an id: the first ones of a UUIDv7 are its time, alike for neighbours.
fn short(id: impl ToString) -> String {
    let text = id.to_string();
    text.get(text.len().saturating_sub(8)..)
        .unwrap_or_default()
        .to_owned()
}

/// `2 vCPU · 4 GiB · 10 GiB disk`, or with the accelerator's name.
fn show_resources(row: &EnvironmentRow) -> String {
    let resources = &row.definition.resources;
    let size = show_size(
        resources.effective_cpu_milli(),
        resources.effective_memory_mib(),
    );
    let disk = row.definition.effective_disk_gi();
    match &resources.accelerator {
        Some(accelerator) => format!("{} · {size} · {disk} GiB disk", accelerator.name),
        None => format!("{size} · {disk} GiB disk"),
    }
}

/// A row of the table.
pub(crate) fn item(row: &EnvironmentRow) -> EnvironmentItem {
    let badge = row.verification.badge(&fingerprint_of(row));
    EnvironmentItem {
        environment_id: row.environment_id,
        short_id: short(row.environment_id),
        name: row.definition.name.clone(),
        description: row.definition.description.clone(),
        resources: show_resources(row),
        badge,
        badge_label: badge.label().to_owned(),
        testable: row.definition.has_script(),
        active_setup_run_id: row.verification.active_setup_run_id,
        session_refusal: startable_view(row).reason,
        updated_at: row.updated_at,
        created_at: row.created_at,
    }
}

/// Order of the Setup column: what needs somebody first.
const fn urgency(badge: SetupBadge) -> u8 {
    match badge {
        SetupBadge::Failed => 0,
        SetupBadge::NoImage => 1,
        SetupBadge::Stale => 2,
        SetupBadge::NotTested => 3,
        SetupBadge::Testing => 4,
        SetupBadge::Retesting => 5,
        SetupBadge::Verified => 6,
        SetupBadge::Ready => 7,
    }
}

/// A row with what it is sorted by: made once for each, since badges and lower case cost more than comparing.
struct Sortable {
    item: EnvironmentItem,
    name: String,
    size: (u32, u32, u32),
}

fn sortable(row: &EnvironmentRow) -> Sortable {
    let resources = &row.definition.resources;
    Sortable {
        item: item(row),
        name: row.definition.name.to_lowercase(),
        size: (
            resources.effective_cpu_milli(),
            resources.effective_memory_mib(),
            row.definition.effective_disk_gi(),
        ),
    }
}

fn compare(a: &Sortable, b: &Sortable, by: SortBy) -> Ordering {
    match by {
        SortBy::Updated => a.item.updated_at.cmp(&b.item.updated_at),
        SortBy::Created => a.item.created_at.cmp(&b.item.created_at),
        SortBy::Name => a.name.cmp(&b.name),
        SortBy::Resources => a.size.cmp(&b.size),
        SortBy::Setup => urgency(a.item.badge).cmp(&urgency(b.item.badge)),
    }
}

impl Control {
    /// The environments table: rows whose name or id holds `query` (without case), sorted.
    pub async fn environments_table(
        &self,
        ctx: &OpCtx,
        query: &str,
        sort: Sort,
    ) -> Result<EnvironmentsTable> {
        let member = ctx.require(Action::ReadEnvironments)?;
        let mut rows = self.0.store.environments(member.organization_id).await?;
        let total = rows.len();
        let query = query.trim().to_lowercase();
        if !query.is_empty() {
            rows.retain(|row| {
                row.definition.name.to_lowercase().contains(&query)
                    || row.environment_id.to_string().contains(&query)
            });
        }
        let mut rows: Vec<Sortable> = rows.iter().map(sortable).collect();
        rows.sort_by(|a, b| {
            let order = compare(a, b, sort.by);
            let order = if sort.ascending {
                order
            } else {
                order.reverse()
            };
            // Equal rows keep one order, whatever the column.
            order.then_with(|| b.item.environment_id.cmp(&a.item.environment_id))
        });
        Ok(EnvironmentsTable {
            rows: rows.into_iter().map(|row| row.item).collect(),
            total,
            may: ctx.may(),
        })
    }

    /// The create page.
    pub async fn new_environment_page(&self, ctx: &OpCtx) -> Result<NewEnvironmentPage> {
        ctx.require(Action::ChangeEnvironments)?;
        Ok(NewEnvironmentPage {
            offer: self.make_offer(),
            templates: self.templates(),
            may: ctx.may(),
        })
    }

    /// One environment's page.
    pub async fn environment_page(
        &self,
        ctx: &OpCtx,
        id: EnvironmentId,
    ) -> Result<EnvironmentPage> {
        let row = self
            .load_environment(ctx, id, Action::ReadEnvironments)
            .await?;
        let runs = self.0.store.runs(id, limits::RUN_LIST_MAX).await?;
        let recent_runs = self.run_items(&runs).await?;
        let active = runs
            .iter()
            .find(|run| Some(run.setup_run_id) == row.verification.active_setup_run_id);
        let active_run = match active {
            Some(run) => Some(self.view_of(ctx, run).await?),
            None => None,
        };
        let last_run = match runs.first() {
            Some(run) => Some(self.view_of(ctx, run).await?),
            None => None,
        };
        let staleness = self.staleness_of(&row).await?;
        let setup_updated_by = match row.setup_updated_by {
            Some(user) => Some(self.name_of(user).await?),
            None => None,
        };
        let item = item(&row);
        Ok(EnvironmentPage {
            environment: view::environment(&row),
            revision: row.revision,
            short_id: item.short_id,
            resources: item.resources,
            badge: item.badge,
            badge_label: item.badge_label,
            usable: startable_view(&row).reason.is_empty(),
            session_refusal: startable_view(&row).reason,
            staleness: staleness.stale.then_some(staleness),
            setup_updated_by,
            active_run,
            last_run,
            recent_runs,
            offer: self.make_offer(),
            may: ctx.may(),
        })
    }

    async fn run_items(&self, rows: &[SetupRunRow]) -> Result<Vec<RunItem>> {
        let mut names = Names::default();
        let mut items = Vec::with_capacity(rows.len());
        for row in rows {
            items.push(RunItem {
                setup_run_id: row.setup_run_id,
                short_id: short(row.setup_run_id),
                status: row.state.status,
                status_label: status_label(row).to_owned(),
                kind: row.kind,
                by: names.of(self, row.requested_by).await?,
                created_at: row.created_at,
                duration_ms: view::duration_ms(row),
                hint_code: row.record.hint_code,
                hint: row.record.hint.clone(),
                log_removed_at: row.log.removed_at,
            });
        }
        Ok(items)
    }

    /// One run as the panel shows it.
    pub async fn run_view(
        &self,
        ctx: &OpCtx,
        environment: EnvironmentId,
        run: SetupRunId,
    ) -> Result<RunView> {
        let (_, row) = self
            .load_run(ctx, environment, run, Action::ReadEnvironments)
            .await?;
        self.view_of(ctx, &row).await
    }

    /// One run's own page.
    pub async fn run_page(
        &self,
        ctx: &OpCtx,
        environment: EnvironmentId,
        run: SetupRunId,
    ) -> Result<RunPage> {
        let (env, row) = self
            .load_run(ctx, environment, run, Action::ReadEnvironments)
            .await?;
        Ok(RunPage {
            run: self.view_of(ctx, &row).await?,
            environment_name: env.definition.name,
            script: row.definition.setup.script,
            previous_ms: self.previous_ms(environment, run).await?,
            may: ctx.may(),
        })
    }

    /// How long the newest run before this one took that passed.
    async fn previous_ms(
        &self,
        environment: EnvironmentId,
        run: SetupRunId,
    ) -> Result<Option<i64>> {
        let runs = self.0.store.runs(environment, limits::RUN_LIST_MAX).await?;
        Ok(runs
            .iter()
            .skip_while(|other| other.setup_run_id != run)
            .skip(1)
            .find(|other| other.state.status == Status::Succeeded)
            .and_then(view::duration_ms))
    }

    /// A run as the panel shows it, of a row that the caller may see.
    pub(crate) async fn view_of(&self, ctx: &OpCtx, row: &SetupRunRow) -> Result<RunView> {
        let now = self.0.clock.now();
        let (running_line, last_output_at) = self.tail_of(row).await?;
        let record = &row.record;
        let state = &row.state;
        let finished = state.status.is_terminal();
        let may = |action| {
            ctx.member()
                .is_ok_and(|member| permits(member.role, action))
        };
        Ok(RunView {
            environment_id: row.environment_id,
            setup_run_id: row.setup_run_id,
            short_id: short(row.setup_run_id),
            kind: row.kind,
            status: state.status,
            status_label: status_label(row).to_owned(),
            finished,
            version: row.version,
            attempt: state.attempt,
            cancelling: state.cancel_requested && !finished,
            phase: state.phase,
            phases: steps(row, now),
            message: record.message.clone(),
            outcome: outcome(row).map(ToOwned::to_owned),
            by: self.name_of(row.requested_by).await?,
            created_at: row.created_at,
            started_at: row.started_at,
            finished_at: row.finished_at,
            now,
            elapsed_ms: row
                .finished_at
                .unwrap_or(now)
                .millis_since(row.started_at.unwrap_or(row.created_at)),
            script_elapsed_ms: script_elapsed_ms(row, now),
            timeout_seconds: row.definition.effective_setup_timeout(),
            running_line,
            script_lines: u32::try_from(row.definition.setup.script.lines().count())
                .unwrap_or(u32::MAX),
            last_output_at,
            exit_code: record.exit_code,
            failed_line: record.failed_line.filter(|line| *line > 0),
            failed_command: record
                .failed_command
                .clone()
                .filter(|text| !text.is_empty()),
            hint_code: record.hint_code,
            hint: record.hint.clone(),
            hint_host: record.hint_host.clone(),
            hint_group: self.hint_group(row),
            raise: self.raise_of(row),
            stderr_tail: record.stderr_tail.clone().filter(|text| !text.is_empty()),
            failure_code: record.failure_code,
            log: LogView {
                lines: row.log.lines,
                bytes: row.log.bytes,
                truncated: row.log.truncated,
                removed_at: row.log.removed_at,
            },
            image: record.image.clone(),
            image_capture_message: record.image_capture.as_ref().map(|failure| {
                failure
                    .message
                    .clone()
                    .unwrap_or_else(|| "The prepared file system could not be saved.".to_owned())
            }),
            disk: disk(row),
            may_change: may(Action::ChangeEnvironments),
            may_cancel: may(Action::TestEnvironments)
                && !finished
                && !state.cancel_requested
                && row.kind != Kind::Session,
        })
    }

    /// The script line that runs (or ran last), and when the last line of the log came.
    async fn tail_of(&self, row: &SetupRunRow) -> Result<(Option<u32>, Option<Timestamp>)> {
        if row.log.removed_at.is_some() {
            return Ok((None, None));
        }
        let after = row.log.lines.saturating_sub(u64::from(TAIL_LINES));
        let lines = self
            .0
            .store
            .log_lines(row.setup_run_id, after, TAIL_LINES)
            .await?
            .lines;
        // Output lines carry their script line too, so that a marker further back is not missed.
        let line = lines
            .iter()
            .rev()
            .filter(|line| line.stream != Stream::System)
            .find_map(|line| line.line);
        Ok((line, lines.last().map(|line| line.at)))
    }
}

/// What the sandbox's disk held at the end, and its size.
fn disk(row: &SetupRunRow) -> Option<(u64, u64)> {
    let profile = row.record.compute_profile.as_ref()?;
    let bytes = |name: &str| profile.get(name).and_then(serde_json::Value::as_u64);
    bytes("disk_used_bytes")
        .zip(bytes("disk_size_bytes"))
        .filter(|(_, size)| *size > 0)
}

fn status_label(row: &SetupRunRow) -> &'static str {
    match row.state.status {
        status if row.state.cancel_requested && !status.is_terminal() => "Cancelling",
        Status::Queued => "Queued",
        Status::Provisioning if !row.state.driven => "Waiting to be tried again",
        Status::Provisioning => "Preparing",
        Status::Running => "Running",
        Status::Succeeded => "Succeeded",
        Status::Failed => "Failed",
        Status::Cancelled => "Cancelled",
    }
}

/// The reference's sentences for how a run ended.
fn outcome(row: &SetupRunRow) -> Option<&'static str> {
    match row.state.status {
        Status::Succeeded if row.record.image.is_some() => Some("Setup verified."),
        Status::Succeeded => Some("Setup passed, but its reusable image failed."),
        Status::Failed => Some("Setup failed."),
        Status::Cancelled => Some("Cancelled."),
        Status::Queued | Status::Provisioning | Status::Running => None,
    }
}

fn phase_label(phase: Phase) -> &'static str {
    match phase {
        Phase::Provision => "Prepare sandbox",
        Phase::GpuCheck => "Check GPU",
        Phase::Setup => "Run script",
        Phase::Profile => "Measure",
        Phase::Commit => "Save image",
        Phase::Cleanup => "Clean up",
    }
}

/// When a phase was reached, and when the next one was (or the run ended, or now).
fn span(row: &SetupRunRow, phase: Phase, now: Timestamp) -> Option<(Timestamp, Timestamp)> {
    let phases = &row.record.phases;
    let index = phases.iter().position(|(reached, _)| *reached == phase)?;
    let (_, start) = phases.get(index)?;
    let end = phases
        .get(index + 1)
        .map(|(_, next)| *next)
        .or(row.finished_at)
        .unwrap_or(now);
    Some((*start, end))
}

fn script_elapsed_ms(row: &SetupRunRow, now: Timestamp) -> Option<i64> {
    span(row, Phase::Setup, now).map(|(start, end)| end.millis_since(start))
}

fn steps(row: &SetupRunRow, now: Timestamp) -> Vec<PhaseStep> {
    let gpu = row.definition.resources.accelerator.is_some();
    let at = row.state.phase;
    let status = row.state.status;
    Phase::ALL
        .iter()
        .copied()
        .filter(|phase| gpu || *phase != Phase::GpuCheck)
        .map(|phase| {
            let span = span(row, phase, now);
            let state = match status {
                Status::Queued => StepState::Waiting,
                Status::Succeeded => StepState::Done,
                _ if phase < at => StepState::Done,
                Status::Provisioning | Status::Running if phase > at => StepState::Waiting,
                Status::Provisioning if !row.state.driven => StepState::Waiting,
                Status::Provisioning | Status::Running => StepState::Active,
                _ if phase > at => StepState::Skipped,
                Status::Failed => StepState::Failed,
                Status::Cancelled => StepState::Cancelled,
            };
            PhaseStep {
                phase,
                label: phase_label(phase).to_owned(),
                state,
                started_at: span.map(|(start, _)| start),
                duration_ms: span.map(|(start, end)| end.millis_since(start)),
            }
        })
        .collect()
}
