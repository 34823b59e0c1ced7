//! The table of scripts that the driver must judge rightly, each in a sandbox of its own.

#![allow(clippy::unwrap_used)]

use std::time::Instant;

use execution::runtime::Runtime;

use crate::{
    support::{Bench, spec},
    table::{Case, Outcome, all},
};

/// Sandboxes at once.
const AT_ONCE: usize = 4;

async fn judge(bench: &Bench, case: &Case) -> Vec<String> {
    let id = bench.start(&spec()).await;
    let started = Instant::now();
    let ran = bench.run_case(id, &case.script, case.timeout).await;
    let took = started.elapsed();
    bench.runtime.destroy(id).await.unwrap();
    match ran {
        Ok(ran) => case.complaints(&Outcome {
            exit: ran.end.exit_code,
            line: ran.end.failed_line,
            command: ran.end.failed_command,
            failed_in: ran.end.failed_in,
            took,
            events: ran.events,
        }),
        Err(error) => vec![format!("{}: {error}", case.name)],
    }
}

#[tokio::test]
async fn every_script_of_the_table_is_judged_rightly_in_a_sandbox() {
    let only = std::env::var("DRIVER_CASE").unwrap_or_default();
    let cases: Vec<Case> = all()
        .into_iter()
        .filter(|case| !case.host_only && case.name.contains(&only))
        .collect();
    let bench = Bench::new();
    let mut wrong = Vec::new();
    for batch in cases.chunks(AT_ONCE) {
        let judged = futures::future::join_all(batch.iter().map(|case| judge(&bench, case))).await;
        wrong.extend(judged.into_iter().flatten());
    }
    bench.assert_clean().await;
    assert!(
        wrong.is_empty(),
        "{} of {} cases:\n{}",
        wrong.len(),
        cases.len(),
        wrong.join("\n")
    );
}
