//! The same random commands on both databases: the same answers, and the same rows in the end.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod common;

use std::fmt::Debug;

use common::{Bed, rows};
use control::ports::{
    Effects, LogAppend, Receipt, RequestKey, RunChange, Store, StoreError, rows::RevisionRow,
};
use domain::{
    roles::Role,
    setup_run::{Command, End, Kind, Phase},
    timestamp::Timestamp,
};
use rand::{Rng, SeedableRng, rngs::StdRng};
use store::Database;

const SEQUENCES: u64 = 4;
const STEPS: usize = 250;

/// Tables and the statement that shows their rows.
const DUMPS: [&str; 11] = [
    "SELECT user_id || '|' || email || '|' || role || '|' || session_epoch || '|' || COALESCE(removed_at, -1) \
     FROM users ORDER BY 1",
    "SELECT invitation_id || '|' || email || '|' || COALESCE(closed_at, -1) FROM invitations ORDER BY 1",
    "SELECT api_key_id || '|' || secret_hash || '|' || COALESCE(last_used_at, -1) || '|' || COALESCE(revoked_at, -1) \
     FROM api_keys ORDER BY 1",
    "SELECT id_hash || '|' || data || '|' || expires_at FROM web_sessions ORDER BY 1",
    "SELECT idempotency_key || '|' || request_hash || '|' || claimed_at || '|' || COALESCE(status, -1) || '|' || \
     COALESCE(body, '-') || '|' || COALESCE(completed_at, -1) FROM receipts ORDER BY 1",
    "SELECT environment_id || '|' || version || '|' || revision || '|' || definition || '|' || verification || '|' || \
     updated_at || '|' || COALESCE(deleted_at, -1) FROM environments ORDER BY 1",
    "SELECT environment_id || '|' || revision || '|' || definition || '|' || saved_at FROM environment_revisions ORDER BY 1",
    "SELECT setup_run_id || '|' || environment_id || '|' || status || '|' || phase || '|' || attempt || '|' || \
     CASE WHEN driven THEN 1 ELSE 0 END || '|' || version || '|' || record || '|' || COALESCE(worker_id, '-') || '|' || \
     log_lines || '|' || log_bytes || '|' || log_attempt || '|' || log_worker_seq || '|' || log_open_seq || '|' || \
     COALESCE(log_removed_at, -1) FROM setup_runs ORDER BY 1",
    "SELECT setup_run_id || '|' || first_seq || '|' || last_seq || '|' || lines FROM setup_run_logs ORDER BY 1",
    "SELECT worker_id || '|' || name || '|' || version || '|' || seen_at FROM workers ORDER BY 1",
    "SELECT audit_id || '|' || occurred_at || '|' || subject || '|' || detail FROM audit_events ORDER BY 1",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_commands_have_the_same_outcome_on_both() {
    for seed in 0..SEQUENCES {
        let sqlite = Bed::sqlite().await;
        let postgres = Bed::postgres().await;
        let mut random = StdRng::seed_from_u64(seed);
        for bed in [&sqlite, &postgres] {
            let admin = rows::user(1, 1, Role::Admin);
            let _ = bed
                .db
                .bootstrap(&rows::organization(1), &admin, rows::none())
                .await
                .unwrap();
        }
        let mut effects = 0_usize;
        for step in 0..STEPS {
            let choice = random.random_range(0..CHOICES);
            let numbers: [u64; 4] = std::array::from_fn(|_| random.random_range(0..5));
            let one = apply(&sqlite.db, choice, numbers, step as u64).await;
            let other = apply(&postgres.db, choice, numbers, step as u64).await;
            assert_eq!(
                one, other,
                "seed {seed}, step {step}, choice {choice}, {numbers:?}"
            );
            effects += usize::from(
                ["Done", "Admitted", "Claimed", "()"]
                    .iter()
                    .any(|word| one.starts_with(word)),
            );
        }
        for sql in DUMPS {
            assert_eq!(
                sqlite.dump(sql).await,
                postgres.dump(sql).await,
                "seed {seed}: {sql}"
            );
        }
        assert!(
            effects > STEPS / 10,
            "seed {seed}: only {effects} commands did anything"
        );
    }
}

/// What a caller can see of a result. Which constraint is named when a row breaks two is each database's choice.
fn seen<T: Debug>(result: Result<T, StoreError>) -> String {
    match result {
        Ok(value) => format!("{value:?}"),
        Err(StoreError::Constraint(_)) => "constraint".to_owned(),
        Err(error) => panic!("{error:?}"),
    }
}

const CHOICES: u32 = 24;

/// Does one of the commands, with ids from a small range so that they meet.
async fn apply(db: &Database, choice: u32, n: [u64; 4], step: u64) -> String {
    let [a, b, c, d] = n;
    let org = rows::id(1);
    let now = rows::at(i64::try_from(step).unwrap());
    let environment = rows::id(100 + a);
    let run = rows::id(200 + b);
    let key = RequestKey {
        organization_id: org,
        key: format!("key{c}"),
        request_hash: format!("hash{}", d % 2),
    };
    let mut fx = rows::none();
    if d == 0 {
        fx.audit = vec![rows::audited(1, 1_000 + step).audit[0].clone()];
    }
    match choice {
        0 => {
            let role = Role::ALL[usize::try_from(b % 3).unwrap()];
            seen(db.insert_user(&rows::user(1, a, role), None, fx).await)
        }
        1 => {
            let Some(mut user) = db.user(rows::id(a)).await.unwrap() else {
                return "no such user".to_owned();
            };
            let before = user.clone();
            user.role = Role::ALL[usize::try_from(b % 3).unwrap()];
            user.removed_at = (c == 0).then_some(now);
            user.session_epoch += 1;
            let mut before = before;
            before.session_epoch -= i64::try_from(d / 4).unwrap();
            seen(db.update_user(&before, &user, fx).await)
        }
        2 => seen(
            db.insert_invitation(&rows::invitation(1, a, rows::id(b)), fx)
                .await,
        ),
        3 => {
            let user = rows::user(1, 10 + a, Role::User);
            seen(db.insert_user(&user, Some((rows::id(b), now)), fx).await)
        }
        4 => seen(db.close_invitation(org, rows::id(a), now, fx).await),
        5 => seen(
            db.insert_api_key(&rows::api_key(1, a, rows::id(b)), fx)
                .await,
        ),
        6 => seen(db.revoke_api_key(org, rows::id(a), now, fx).await),
        7 => seen(
            db.touch_api_key(rows::id(a), rows::at(i64::try_from(b).unwrap()))
                .await,
        ),
        8 => seen(
            db.claim_receipt(&key, now, now.plus_seconds(-20), now.plus_seconds(-10))
                .await,
        ),
        9 => seen(db.release_receipt(&key).await),
        10 => seen(db.delete_receipts(now.plus_seconds(-30)).await),
        11 => {
            fx.receipt = Some(Receipt {
                key,
                status: 201,
                body: format!("step {step}"),
                at: now,
            });
            seen(
                db.insert_environment(&rows::environment(1, 100 + a), fx)
                    .await,
            )
        }
        12 | 13 => seen(
            db.insert_environment(&rows::environment(1, 100 + a), fx)
                .await,
        ),
        14 => {
            let Some(mut row) = db.environment(org, environment).await.unwrap() else {
                return "no such environment".to_owned();
            };
            let expected = row.version - i64::try_from(b / 4).unwrap();
            row.version += 1;
            row.revision += 1;
            row.definition = rows::definition(step);
            row.updated_at = now;
            fx.revision = Some(RevisionRow {
                environment_id: environment,
                revision: row.revision,
                definition: row.definition.clone(),
                by: rows::id(1),
                at: now,
            });
            seen(db.update_environment(expected, &row, fx).await)
        }
        15 if c == 0 => {
            let Some(mut row) = db.environment(org, environment).await.unwrap() else {
                return "no such environment".to_owned();
            };
            row.version += 1;
            seen(
                db.delete_environment(row.version - 1, &row, now, None, fx)
                    .await,
            )
        }
        16 | 17 => {
            let Some(row) = db.environment(org, environment).await.unwrap() else {
                return "no such environment".to_owned();
            };
            let mut next = row.clone();
            next.version += 1;
            let mut admitted = rows::run(&next, 200 + step, rows::id(1));
            if d == 1 {
                admitted.kind = Kind::RunnerRefresh;
            }
            let line = rows::system("admitted");
            seen(
                db.admit_run(&admitted, &line, row.version, &next, 2, fx)
                    .await,
            )
        }
        18 => move_run(db, [a, b, c, d], fx, now).await,
        19 | 20 => {
            let runs = db.driven_runs().await.unwrap();
            let target = runs
                .get(usize::try_from(a).unwrap())
                .map_or(run, |run| run.setup_run_id);
            let lines = (0..=c)
                .map(|more| rows::line(b + more, &"text ".repeat(usize::try_from(d).unwrap())));
            let append = LogAppend {
                setup_run_id: target,
                attempt: (d != 2).then_some(1),
                lines: lines.collect(),
                truncated: d == 3,
                open: d == 4,
            };
            let appended = seen(db.append_log(&append).await);
            let page = seen(db.log_lines(target, c, 3).await);
            format!("{appended} {page}")
        }
        21 => seen(db.delete_logs(now.plus_seconds(-40), now).await),
        22 => seen(
            db.register_worker(&rows::worker(a, &format!("w{}", b % 3)))
                .await,
        ),
        _ => format!(
            "{} {} {} {} {} {} {}",
            seen(db.environments(org).await),
            seen(db.runs(environment, 3).await),
            seen(db.waiting_run().await),
            seen(db.waiting_runs().await),
            seen(db.audit(org, None, 5).await),
            seen(db.invitations(org).await),
            seen(db.api_keys(org, (a > 2).then_some(rows::id(b))).await),
        ),
    }
}

/// Moves the waiting run, or one of those that are driven.
async fn move_run(db: &Database, n: [u64; 4], fx: Effects, now: Timestamp) -> String {
    let [a, b, c, d] = n;
    let driven = db.driven_runs().await.unwrap();
    let (row, command) = match driven.get(usize::try_from(a).unwrap()) {
        Some(run) => {
            let attempt = run.state.attempt;
            let command = match b {
                0 => Command::RequestCancel,
                1 => Command::Lose { attempt },
                2 => Command::Reach {
                    attempt,
                    phase: Phase::Setup,
                },
                _ => Command::Finish {
                    attempt,
                    end: End::Failed(Phase::Setup),
                },
            };
            (Some(run.clone()), command)
        }
        None => (db.waiting_run().await.unwrap(), Command::Claim),
    };
    let Some(mut run) = row else {
        return "no run".to_owned();
    };
    let Ok(state) = run.state.decide(&command) else {
        return "no such move".to_owned();
    };
    run.state = state;
    run.finished_at = run.state.status.is_terminal().then_some(now);
    run.version += 1;
    let line = rows::system("moved");
    let change = RunChange {
        expected: run.version - 1 - i64::try_from(c / 4).unwrap(),
        row: &run,
        system_line: (d > 2).then_some(&line),
    };
    let environment = db
        .environment(run.organization_id, run.environment_id)
        .await
        .unwrap();
    let mut next = environment.clone();
    if let Some(next) = &mut next {
        next.version += 1;
    }
    let with = environment
        .as_ref()
        .zip(next.as_ref())
        .filter(|_| d % 2 == 0)
        .map(|(old, new)| (old.version, new));
    seen(db.update_run(change, with, fx).await)
}
