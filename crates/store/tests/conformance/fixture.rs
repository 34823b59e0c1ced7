//! What cases begin with.

use std::{future::Future, sync::Arc};

use control::ports::{Admission, RunChange, Store, Written, rows::*};
use domain::{ids::*, roles::Role, setup_run::Command};
use store::Database;

use crate::common::{Bed, rows};

/// Organization 1 with admin 1.
pub async fn bootstrapped(bed: &Bed) -> UserRow {
    let admin = rows::user(1, 1, Role::Admin);
    assert_eq!(
        bed.db
            .bootstrap(&rows::organization(1), &admin, rows::none())
            .await
            .unwrap(),
        Written::Done
    );
    admin
}

/// Organization 1 with admin 1 and environment 100.
pub async fn with_environment(bed: &Bed) -> EnvironmentRow {
    bootstrapped(bed).await;
    add_environment(bed, 100).await
}

pub async fn add_environment(bed: &Bed, number: u64) -> EnvironmentRow {
    let environment = rows::environment(1, number);
    bed.db
        .insert_environment(&environment, rows::none())
        .await
        .unwrap();
    environment
}

/// Admits a run of the environment as it is now.
pub async fn admit(bed: &Bed, environment: &EnvironmentRow, number: u64) -> Admission {
    let mut next = environment.clone();
    next.version += 1;
    next.verification.active_setup_run_id = Some(rows::id(number));
    let run = rows::run(&next, number, rows::id(1));
    bed.db
        .admit_run(
            &run,
            &rows::system("admitted"),
            environment.version,
            &next,
            4,
            rows::none(),
        )
        .await
        .unwrap()
}

/// Admitted and claimed by worker 7.
pub async fn driven(bed: &Bed) -> SetupRunRow {
    let environment = with_environment(bed).await;
    assert_eq!(admit(bed, &environment, 200).await, Admission::Admitted);
    let worker: WorkerId = bed.db.register_worker(&rows::worker(7, "w")).await.unwrap();
    step(bed, rows::id(200), &Command::Claim, |run| {
        run.worker_id = Some(worker);
        run.started_at = Some(rows::at(50));
    })
    .await
}

/// Reads a run, applies a command, writes it.
pub async fn step(
    bed: &Bed,
    id: SetupRunId,
    command: &Command,
    also: impl FnOnce(&mut SetupRunRow),
) -> SetupRunRow {
    let mut run = bed.db.run(id).await.unwrap().unwrap();
    let expected = run.version;
    run.version += 1;
    run.state = run.state.decide(command).unwrap();
    also(&mut run);
    let change = RunChange {
        expected,
        row: &run,
        system_line: None,
    };
    assert_eq!(
        bed.db.update_run(change, None, rows::none()).await.unwrap(),
        Written::Done
    );
    run
}

/// Runs a thing `count` times at once.
pub async fn at_once<T, F>(bed: &Bed, count: u64, make: impl Fn(Arc<Database>, u64) -> F) -> Vec<T>
where
    T: Send + 'static,
    F: Future<Output = T> + Send + 'static,
{
    let tasks: Vec<_> = (0..count)
        .map(|number| tokio::spawn(make(Arc::clone(&bed.db), number)))
        .collect();
    let mut results = Vec::new();
    for task in tasks {
        results.push(task.await.unwrap());
    }
    results
}
