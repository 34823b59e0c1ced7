#!/usr/bin/env bash
# From nothing to a running console: what is missing, the build, the runner image, the server.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
cd "$root"
"$root/scripts/deps.sh" build run
"$root/scripts/build.sh"
data=${GROUNDWORK_DATA:-$root/data}
export GROUNDWORK_DATA=$data
if [ "$(id -u)" = 0 ]; then
  "$bin" runner-image build --variant "${GROUNDWORK_RUNNER_VARIANT:-full}" >&2
else
  die "sandboxes need root (overlay and loop mounts, cgroups). Run: sudo -E make run
       The console alone starts with: $bin serve --no-worker"
fi
exec "$bin" serve
