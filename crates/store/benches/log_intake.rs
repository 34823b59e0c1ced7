//! How fast logs can be stored on both databases, in lines a second: `cargo bench -p store --bench log_intake`. The
//! store must take 50,000 (spec 4-execution, *Speed*); it ends with an error where it does not.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

#[path = "../tests/common/mod.rs"]
mod common;
#[path = "../tests/conformance/fixture.rs"]
#[allow(dead_code, missing_docs)]
mod fixture;

use std::time::Instant;

use common::{Bed, rows};
use control::ports::{LogAppend, Store};

/// Lines a second that the store must take, in batches of this many.
const LINES_PER_SECOND: f64 = 50_000.0;
const BATCH: u64 = 200;
const BATCHES: u64 = 500;

async fn measure(bed: Bed) {
    let run = fixture::driven(&bed).await;
    let mut seq = 2;
    let batches: Vec<LogAppend> = (0..BATCHES)
        .map(|_| {
            let lines = (seq..seq + BATCH).map(|seq| {
                rows::line(
                    seq,
                    "Collecting a-package-with-a-long-name==1.2.3 (from requirements.txt line 12)",
                )
            });
            seq += BATCH;
            LogAppend {
                setup_run_id: run.setup_run_id,
                attempt: Some(1),
                lines: lines.collect(),
                truncated: false,
                open: false,
            }
        })
        .collect();
    let start = Instant::now();
    for batch in &batches {
        let _ = bed.db.append_log(batch).await.unwrap();
    }
    let rate = (BATCH * BATCHES) as f64 / start.elapsed().as_secs_f64();
    eprintln!("{rate:.0} lines/s on {:?}", bed.db);
    assert!(
        rate >= LINES_PER_SECOND,
        "{rate:.0} lines/s are under {LINES_PER_SECOND}"
    );
}

#[tokio::main]
async fn main() {
    measure(Bed::sqlite().await).await;
    measure(Bed::postgres().await).await;
}
