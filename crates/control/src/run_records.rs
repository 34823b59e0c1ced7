//! What is kept of a run beside its log: hosts asked for, seconds per script line; and the host that is allowed because a
//! run was refused it.

use domain::{
    environment::{Definition, parse_patch},
    ids::{EnvironmentId, SetupRunId},
    limits,
    network_policy::{CompiledPolicy, NetworkPolicy},
    roles::{Action, permits},
    run_records::{AskedHost, EgressOutcome, LineTime, previous_times},
};
use serde_json::json;
use wire::{
    console::{HintGroup, RunHost, RunHosts},
    managed_agents::Environment,
    run_records::{EgressHost, LineTiming, PreviousRun, RunEgress, RunTimings},
};

use crate::{
    Control, Error, OpCtx, RACES_MAX, Result,
    idempotency::ReceiptMaker,
    ports::{
        Written,
        rows::{EnvironmentRow, SetupRunRow},
    },
};

/// Hosts that a page shows; REST lists them all.
const HOSTS_SHOWN: usize = 500;
/// Earlier runs that are looked through for one with times to compare with.
const EARLIER_RUNS: usize = 10;

fn seconds(micros: u64) -> f64 {
    #[allow(
        clippy::cast_precision_loss,
        reason = "microseconds of a run are exact in f64"
    )]
    let micros = micros as f64;
    micros / 1e6
}

fn total(times: &[LineTime]) -> f64 {
    seconds(times.iter().map(|time| time.micros).sum())
}

fn host(asked: AskedHost, policy: &NetworkPolicy) -> EgressHost {
    let rule_host_glob = match (policy, asked.rule) {
        (NetworkPolicy::Rules(rules), Some(rule)) => {
            rules.get(rule as usize).map(|rule| rule.host_glob.clone())
        }
        _ => None,
    };
    EgressHost {
        host: asked.host,
        port: asked.port,
        allowed: !asked.outcome.blocked(),
        outcome: asked.outcome,
        rule: asked.rule,
        rule_host_glob,
        redirected_from: asked.redirected_from,
        line: asked.line,
        count: asked.count,
    }
}

const fn label(outcome: EgressOutcome) -> &'static str {
    match outcome {
        EgressOutcome::Allowed => "Allowed",
        EgressOutcome::Denied => "Blocked",
        EgressOutcome::RefusedAddress => "Blocked: address that no sandbox may reach",
        EgressOutcome::Mismatch => "Blocked: another name in the request",
        EgressOutcome::Protocol => "Blocked: only TCP leaves a sandbox",
        EgressOutcome::UpstreamFailed => "Allowed, but did not answer",
        EgressOutcome::Limit => "Blocked: too many at once",
    }
}

impl Control {
    /// Hosts that a run asked for so far.
    pub async fn setup_run_egress(
        &self,
        ctx: &OpCtx,
        environment: EnvironmentId,
        run: SetupRunId,
    ) -> Result<RunEgress> {
        let (_, row) = self
            .load_run(ctx, environment, run, Action::ReadEnvironments)
            .await?;
        self.egress_of(&row).await
    }

    async fn egress_of(&self, row: &SetupRunRow) -> Result<RunEgress> {
        let records = self.0.store.run_records(row.setup_run_id).await?;
        Ok(RunEgress {
            hosts: records
                .hosts
                .into_iter()
                .map(|asked| host(asked, &row.definition.network_policy))
                .collect(),
            complete: row.state.status.is_terminal(),
            removed_at: row.log.removed_at,
        })
    }

    /// The same as the console shows it: what was blocked first, and what the viewer can do about it.
    pub async fn run_hosts(
        &self,
        ctx: &OpCtx,
        environment: EnvironmentId,
        run: SetupRunId,
    ) -> Result<RunHosts> {
        let (env, row) = self
            .load_run(ctx, environment, run, Action::ReadEnvironments)
            .await?;
        let member = ctx.member()?;
        let egress = self.egress_of(&row).await?;
        let policy = CompiledPolicy::new(&env.definition.network_policy);
        let may_change = permits(member.role, Action::ChangeEnvironments);
        let mut asked = egress.hosts;
        asked.sort_by_key(|host| host.allowed);
        let blocked = asked.iter().filter(|host| !host.allowed).count();
        let more = asked.split_off(asked.len().min(HOSTS_SHOWN));
        // Whether the saved policy takes one more rule does not depend on which host it is of: it is judged whole once.
        let mut has_room = None;
        let mut may_allow = |host: &str| {
            let more = env.definition.network_policy.allowing(host);
            more.is_ok_and(|more| more.is_some())
                && *has_room.get_or_insert_with(|| self.more_rules(&env, &[host]).is_ok())
        };
        let hosts: Vec<RunHost> = asked
            .into_iter()
            .map(|asked| {
                let denied = asked.outcome == EgressOutcome::Denied;
                let allowed_now = policy.verdict(&asked.host).allowed;
                RunHost {
                    label: label(asked.outcome).to_owned(),
                    may_allow: may_change && denied && may_allow(&asked.host),
                    allowed_since: denied && allowed_now,
                    asked,
                }
            })
            .collect();
        Ok(RunHosts {
            hosts,
            more: more.len() as u64,
            blocked: blocked as u64,
            complete: egress.complete,
            removed_at: egress.removed_at,
            may_test: permits(member.role, Action::TestEnvironments) && env.definition.has_script(),
        })
    }

    /// How long a run's script lines took, against the run before it.
    pub async fn setup_run_timings(
        &self,
        ctx: &OpCtx,
        environment: EnvironmentId,
        run: SetupRunId,
    ) -> Result<RunTimings> {
        let (_, row) = self
            .load_run(ctx, environment, run, Action::ReadEnvironments)
            .await?;
        let times = self.0.store.run_times(run).await?;
        let previous = if times.is_empty() {
            None
        } else {
            self.run_before(&row).await?
        };
        let script: Vec<&str> = row.definition.setup.script.lines().collect();
        let earlier = previous
            .as_ref()
            .map_or_else(Vec::new, |(before, before_times)| {
                previous_times(
                    &row.definition.setup.script,
                    &before.definition.setup.script,
                    before_times,
                )
            });
        Ok(RunTimings {
            total_seconds: total(&times),
            lines: times
                .into_iter()
                .map(|time| LineTiming {
                    line: time.line,
                    text: (time.line as usize)
                        .checked_sub(1)
                        .and_then(|index| script.get(index))
                        .map(|text| text.trim().to_owned())
                        .unwrap_or_default(),
                    seconds: seconds(time.micros),
                    previous_seconds: earlier
                        .iter()
                        .find(|before| before.line == time.line)
                        .map(|before| seconds(before.micros)),
                })
                .collect(),
            previous: previous.map(|(before, before_times)| PreviousRun {
                setup_run_id: before.setup_run_id,
                total_seconds: total(&before_times),
            }),
            complete: row.state.status.is_terminal(),
            removed_at: row.log.removed_at,
        })
    }

    /// The newest run before this one that has times.
    async fn run_before(&self, row: &SetupRunRow) -> Result<Option<(SetupRunRow, Vec<LineTime>)>> {
        let runs = self
            .0
            .store
            .runs(row.environment_id, limits::RUN_LIST_MAX)
            .await?;
        let older = runs
            .into_iter()
            .skip_while(|run| run.setup_run_id != row.setup_run_id)
            .skip(1)
            .take(EARLIER_RUNS);
        for run in older {
            let times = self.0.store.run_times(run.setup_run_id).await?;
            if !times.is_empty() {
                return Ok(Some((run, times)));
            }
        }
        Ok(None)
    }

    /// The group to allow at once with the host that a run was refused, where it holds more that is blocked.
    pub(crate) fn hint_group(&self, run: &SetupRunRow) -> Option<HintGroup> {
        let refused = run.record.hint_host.as_deref()?;
        let (name, hosts) = self.0.catalog.host_groups.around(refused)?;
        let policy = &run.definition.network_policy;
        let more = hosts
            .iter()
            .any(|host| !host.eq_ignore_ascii_case(refused) && !policy.verdict(host).allowed);
        more.then(|| HintGroup {
            name: name.to_owned(),
            hosts: hosts.to_vec(),
        })
    }

    /// Allows a host with one more rule, before the first rule that would deny it, else at the end. Changes nothing where it
    /// is allowed already; an edit by somebody else meanwhile is kept, and the rule goes into the policy that they saved.
    ///
    /// # Errors
    /// `400` for what is no single host, when the policy is full, or for an environment with privileged Docker.
    pub async fn allow_host(
        &self,
        ctx: &OpCtx,
        environment: EnvironmentId,
        host: &str,
    ) -> Result<Environment> {
        self.allow_hosts(ctx, environment, &[host]).await
    }

    /// As [`Self::allow_host`], with the other hosts of the group that names it (as `RunView::hint_group` offers it); the
    /// host alone where there is none.
    ///
    /// # Errors
    /// As [`Self::allow_host`].
    pub async fn allow_host_group(
        &self,
        ctx: &OpCtx,
        environment: EnvironmentId,
        host: &str,
    ) -> Result<Environment> {
        match self.0.catalog.host_groups.around(host) {
            Some((_, hosts)) => {
                let hosts: Vec<&str> = hosts.iter().map(String::as_str).collect();
                self.allow_hosts(ctx, environment, &hosts).await
            }
            None => self.allow_host(ctx, environment, host).await,
        }
    }

    async fn allow_hosts(
        &self,
        ctx: &OpCtx,
        environment: EnvironmentId,
        hosts: &[&str],
    ) -> Result<Environment> {
        for _ in 0..RACES_MAX {
            let saved = self
                .load_environment(ctx, environment, Action::ChangeEnvironments)
                .await?;
            let Some(definition) = self.more_rules(&saved, hosts)? else {
                return Ok(crate::view::environment(&saved));
            };
            let (written, answer) = self
                .write_definition(
                    ctx,
                    &saved,
                    definition,
                    "environment.allow_host",
                    &ReceiptMaker::none(),
                )
                .await?;
            if written == Written::Done {
                return Ok(answer);
            }
        }
        Err(Error::revision_conflict(Vec::new()))
    }

    /// The definition with the hosts allowed, as an update through the API would make it; `None`: they are allowed already.
    fn more_rules(&self, saved: &EnvironmentRow, hosts: &[&str]) -> Result<Option<Definition>> {
        let definition = &saved.definition;
        let mut allowing = None;
        for host in hosts {
            let policy = allowing.as_ref().unwrap_or(&definition.network_policy);
            let more = policy
                .allowing(host)
                .map_err(|bad| Error::invalid_field("host", bad.to_string()))?;
            allowing = more.or(allowing);
        }
        let Some(policy) = allowing else {
            return Ok(None);
        };
        let body = json!({
            "network_policy": policy.to_json(),
            "expected_access": {
                "network_policy": definition.network_policy.to_json(),
                "privileged": definition.privileged,
            },
        });
        let patch = parse_patch(&body, &self.0.catalog)?;
        Ok(Some(patch.apply(definition, &self.0.catalog)?))
    }
}
