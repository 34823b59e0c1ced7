//! What every script finds.

use crate::support::Bench;

#[tokio::test(flavor = "multi_thread")]
async fn a_script_runs_and_its_output_arrives() {
    let bench = Bench::new();
    let ran = bench.run("echo out\necho err >&2\n").await;
    assert_eq!(ran.passed(), "out\n");
    assert_eq!(ran.stderr(), "err\n");
    bench.assert_clean().await;
}
