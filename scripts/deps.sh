#!/usr/bin/env bash
# Installs what is missing, and says what and why. Idempotent: with everything there it does nothing and takes no time.
#
#   scripts/deps.sh build        what building needs
#   scripts/deps.sh run          what running sandboxes and building runner images needs
#   scripts/deps.sh test         what the test suite needs beside both
set -euo pipefail
. "$(dirname "$0")/lib.sh"

declare -A why=(
  [build-essential]="the linker, and C code inside some crates"
  [pkg-config]="finds C libraries"
  [ca-certificates]="trust for package downloads"
  [curl]="talks to the server in checks"
  [jq]="reads answers in the guide's examples, which are tested"
  [git]="versions in builds"
  [nodejs]="runs Tailwind and wasm-opt"
  [npm]="fetches Tailwind and wasm-opt"
  [brotli]="compresses the site's files"
  [crun]="starts sandboxes"
  [runc]="starts sandboxes, too: the tests try both"
  [nftables]="closes their network"
  [iproute2]="shows their network"
  [e2fsprogs]="makes their disks"
  [mount]="mounts their disks"
  [procps]="finds what they left behind"
  [mmdebstrap]="builds the runner image"
  [python3]="unpacks tools for the runner image"
  [python3-pip]="fetches uv for the runner image, and what the API is tested with"
  [xz-utils]="unpacks packages"
  [zstd]="unpacks packages"
  [libcap2-bin]="sets file capabilities in tests"
  [postgresql]="the second database, for the conformance suite"
  [chromium]="the browser of the end-to-end suite"
  [fonts-dejavu-core]="letters in the browser's pictures"
  [docker-registry]="a registry on loopback, for tests of images"
  [xattr]="looks at extended attributes in tests"
)
packages_build=(build-essential pkg-config ca-certificates curl git brotli)
packages_run=(crun nftables iproute2 e2fsprogs mount procps mmdebstrap python3 xz-utils zstd ca-certificates)
packages_test=(runc docker-registry postgresql chromium fonts-dejavu-core libcap2-bin curl jq)

# A program from elsewhere (a newer Node.js, say) is as good as the package.
has() { command -v "$1" >/dev/null 2>&1; }
has node && has npm || packages_build+=(nodejs npm)
python3 -m pip --version >/dev/null 2>&1 || { packages_run+=(python3-pip); packages_test+=(python3-pip); }

wanted=()
for group in "$@"; do
  case $group in
    build) wanted+=("${packages_build[@]}") ;;
    run) wanted+=("${packages_run[@]}"); has npm || wanted+=(nodejs npm) ;;
    test) wanted+=("${packages_test[@]}") ;;
    *) die "unknown group $group: use build, run or test" ;;
  esac
done

if has dpkg-query; then
  missing=()
  for package in $(printf '%s\n' "${wanted[@]}" | sort -u); do
    dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null | grep -qx installed || missing+=("$package")
  done
  if [ ${#missing[@]} -gt 0 ]; then
    say "installing Debian packages"
    for package in "${missing[@]}"; do printf '    %-20s %s\n' "$package" "${why[$package]:-}" >&2; done
    [ "$(id -u)" = 0 ] || die "these packages are missing, and only root can install them. Run: sudo apt-get install ${missing[*]}"
    has apt-get || die "this machine has no apt-get. Install what matches: ${missing[*]}"
    quietly "package lists" apt-get update -qq
    # No service may start by itself: the suite starts its own PostgreSQL.
    quietly "apt-get install" env DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 apt-get install -y -qq --no-install-recommends "${missing[@]}"
  fi
else
  lacking=()
  for tool in cc git node npm crun nft ip mkfs.ext4 mmdebstrap python3; do has "$tool" || lacking+=("$tool"); done
  [ ${#lacking[@]} -eq 0 ] || die "this is not Debian, so nothing can be installed for you. Install what gives these commands: ${lacking[*]}"
fi

for group in "$@"; do
  [ "$group" = build ] || continue
  has rustup || die "rustup is missing: install it as its site says, then run this again."
  channel=$(sed -n 's/^channel = "\(.*\)"/\1/p' "$root/rust-toolchain.toml")
  installed=$(rustup toolchain list 2>/dev/null || true)
  if ! grep -q "^$channel" <<<"$installed" || ! rustup +"$channel" target list --installed 2>/dev/null | grep -q wasm32-unknown-unknown \
    || ! rustup +"$channel" component list --installed 2>/dev/null | grep -q clippy; then
    say "installing Rust $channel (the pinned compiler, with the browser's target)"
    quietly "rustup" sh -c "cd '$root' && rustup toolchain install"
  fi
  leptos=0.3.11
  bindgen=$(sed -n 's/^wasm-bindgen = "=\(.*\)"/\1/p' "$root/Cargo.toml")
  export CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_OPT_LEVEL=0 CARGO_PROFILE_RELEASE_CODEGEN_UNITS=256
  if ! cargo-leptos --version 2>/dev/null | grep -qF "$leptos"; then
    say "installing cargo-leptos $leptos (builds both halves of the console; some minutes, once)"
    quietly "cargo install cargo-leptos" env CARGO_TARGET_DIR="$tools/build" cargo +"$channel" install --locked --root "$tools" --features no_downloads "cargo-leptos@$leptos"
  fi
  if ! wasm-bindgen --version 2>/dev/null | grep -qF "$bindgen"; then
    say "installing wasm-bindgen $bindgen (the same version as the crate)"
    quietly "cargo install wasm-bindgen" env CARGO_TARGET_DIR="$tools/build" cargo +"$channel" install --root "$tools" --bin wasm-bindgen "wasm-bindgen-cli@$bindgen"
  fi
  rm -rf "$tools/build"
  stamp=$root/node_modules/.groundwork-lock
  if ! cmp -s "$root/package-lock.json" "$stamp"; then
    say "installing Tailwind and wasm-opt"
    quietly "npm ci" npm --prefix "$root" ci --no-audit --no-fund
    cp "$root/package-lock.json" "$stamp"
  fi
done

for group in "$@"; do
  [ "$group" = test ] || continue
  stamp=$root/end2end/node_modules/.groundwork-lock
  if ! cmp -s "$root/end2end/package-lock.json" "$stamp"; then
    say "installing Playwright and axe (the end-to-end suite)"
    quietly "npm ci" env PLAYWRIGHT_SKIP_BROWSER_DOWNLOAD=1 npm --prefix "$root/end2end" ci --no-audit --no-fund
    cp "$root/end2end/package-lock.json" "$stamp"
  fi
done
