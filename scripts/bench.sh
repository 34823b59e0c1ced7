#!/usr/bin/env bash
# Measures what docs/benchmarks.md lists, side by side in one run. On an otherwise idle machine; quote ratios.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
cd "$root"
[ "$(id -u)" = 0 ] || die "the measurements make real sandboxes, which needs root. Run: sudo -E make bench"
"$root/scripts/deps.sh" build run test
"$root/scripts/build.sh"
export GROUNDWORK_TEST_IMAGES=${GROUNDWORK_TEST_IMAGES:-/var/lib/groundwork-test/images} GROUNDWORK_BIN=$bin
say "$(nproc) cores, kernel $(uname -r), load $(cut -d' ' -f1 /proc/loadavg)"
"$bin" --version
for measure in start_latency session_speed save_speed log_throughput egress_throughput; do
  say "$measure"
  cargo run -q --release -p execution --example "$measure"
done
say "log intake of the store"
cargo bench -q -p store --bench log_intake
say "API"
cargo bench -q -p server --bench api
say "console"
(cd end2end && npx playwright test --config bench.config.ts)
say "interactions, over all stories"
notes=$(mktemp)
(cd end2end && GROUNDWORK_INTERACTIONS=$notes npx playwright test --reporter dot >/dev/null) || say "a story failed; its interactions count all the same"
python3 scripts/interactions.py "$notes"
rm -f "$notes"
