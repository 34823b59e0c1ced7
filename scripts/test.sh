#!/usr/bin/env bash
# Everything that CI checks, cheapest first. GROUNDWORK_TEST_ONLY="lint unit e2e" picks parts.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
cd "$root"
parts=${GROUNDWORK_TEST_ONLY:-lint unit build e2e}
started=$(date +%s)
timings=()
part() { # NAME TITLE COMMAND...
  local name=$1 title=$2 start; shift 2
  [[ " $parts " == *" $name "* ]] || return 0
  say "$title"
  start=$(date +%s)
  "$@" || die "$title: failed"
  timings+=("$(printf '%5ds  %s' $(( $(date +%s) - start )) "$title")")
}

[ "$(id -u)" = 0 ] || die "the suite makes real sandboxes, which needs root. Run: sudo -E make test"
# Sandboxes take their whole disk at once (docs/operations.md): a test that finds no room says nothing about the product.
[ -d "$target/debug/deps" ] || room 26 "$target" "the suite, built from nothing,"
"$root/scripts/deps.sh" build run test
export GROUNDWORK_TEST_IMAGES=${GROUNDWORK_TEST_IMAGES:-/var/lib/groundwork-test/images}
# Tests of sandboxes and databases wait more than they compute.
export RUST_TEST_THREADS=${RUST_TEST_THREADS:-$(( 2 * $(nproc) ))}
export CARGO_TERM_COLOR=${CARGO_TERM_COLOR:-never} INSTA_UPDATE=no

lint_shell() { bash -n scripts/*.sh runner/*.sh .ci/run; }
part lint "scripts parse" lint_shell
part lint "npm packages run on Debian's Node.js" python3 scripts/node-engines.py package-lock.json end2end/package-lock.json
part lint "formatting" cargo fmt --all --check
part lint "rules compile for the browser" cargo check -q -p domain --no-default-features --target wasm32-unknown-unknown
part lint "clippy" cargo clippy -q --workspace --exclude frontend --all-targets -- -D warnings
part unit "runner image for tests" cargo run -q -p execution --example build_runner -- small "$GROUNDWORK_TEST_IMAGES"
part unit "room for sandboxes" room 9 "$GROUNDWORK_TEST_IMAGES" "what follows"
# A test that waits for ever is named by its runner after a minute; nothing waits for it longer than this.
part unit "unit, conformance, sandbox and API tests" timeout 2700 cargo test --workspace --exclude frontend --no-fail-fast
part unit "requests that nobody thought of" python3 "$root/scripts/fuzz/run.py" "$target"
part build "release build" "$root/scripts/build.sh"
part e2e "room for sandboxes" room 14 "${TMPDIR:-/tmp}" "what follows"
part e2e "end-to-end in Chromium" "$root/scripts/e2e.sh"

say "all passed in $(( ($(date +%s) - started) / 60 )) min $(( ($(date +%s) - started) % 60 )) s"
printf '%s\n' "${timings[@]}" >&2
