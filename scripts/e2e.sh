#!/usr/bin/env bash
# The end-to-end suite: the release binary, real sandboxes, real Chromium.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
cd "$root/end2end"
[ -x "$bin" ] || die "there is no release binary: run make build"
export GROUNDWORK_BIN=$bin GROUNDWORK_TEST_IMAGES=${GROUNDWORK_TEST_IMAGES:-/var/lib/groundwork-test/images}
npx tsc --noEmit
exec npx playwright test "$@"
