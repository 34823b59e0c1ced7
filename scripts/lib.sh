# Shared by the scripts beside it: messages, and where things are. Sourced, not run.
# shellcheck shell=bash
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
target=${CARGO_TARGET_DIR:-$root/target}
case $target in /*) ;; *) target=$root/$target ;; esac
tools=$root/target/tools
[ -z "${CARGO_TARGET_DIR:-}" ] || tools=$target/tools
bin=$target/release/groundwork
# Tools that the build installs for itself come first, so that a version on the machine cannot drift in.
export PATH="$tools/bin:$root/node_modules/.bin:$HOME/.cargo/bin:$PATH"

say() { printf '\033[1m==>\033[0m %s\n' "$*" >&2; }
die() { printf '\033[1;31merror:\033[0m %s\n' "$*" >&2; exit 1; }

# Ends, and says so, where a file system has less room than what follows takes.
room() { # GIB DIRECTORY WHAT
  local dir=$2 free
  while [ ! -d "$dir" ]; do dir=$(dirname "$dir"); done
  free=$(df -P -k "$dir" | awk 'NR == 2 { print int($4 / 1048576) }')
  [ "$free" -ge "$1" ] || die "$3 needs $1 GiB free in $dir, and there are $free GiB. Make room and start again."
}

# Runs a command that may take long: its output goes to a log, and a line says how long it has been at it.
quietly() { # TITLE COMMAND...
  local title=$1 log start now; shift
  log=$(mktemp); start=$(date +%s)
  "$@" >"$log" 2>&1 </dev/null &
  local pid=$! last=0
  while kill -0 "$pid" 2>/dev/null; do
    sleep 0.3; now=$(( $(date +%s) - start ))
    if [ -t 2 ]; then printf '\r    %s ... %ds ' "$title" "$now" >&2
    elif [ $((now - last)) -ge 20 ]; then last=$now; printf '    %s ... %ds\n' "$title" "$now" >&2; fi
  done
  [ -t 2 ] && printf '\r' >&2
  if wait "$pid"; then printf '    %s: done in %ds\n' "$title" "$(( $(date +%s) - start ))" >&2; rm -f "$log"; return 0; fi
  tail -n 30 "$log" >&2
  die "$title failed; its whole output is in $log"
}
