#!/usr/bin/env bash
# Builds the release binary with its site files beside it: $CARGO_TARGET_DIR/release/{groundwork,site/,hash.txt}.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
cd "$root"

# Nothing changed since the last build: done.
if [ -x "$bin" ] && [ -z "$(find Cargo.toml Cargo.lock rust-toolchain.toml package-lock.json app crates server style public migrations runner \
      -newer "$bin" -type f -print -quit)" ]; then
  exit 0
fi
say "building Groundwork (release; some minutes the first time)"
export LEPTOS_TAILWIND_VERSION="" RUSTFLAGS=""
unset LEPTOS_TAILWIND_VERSION RUSTFLAGS
# Pages as pieces: the browser fetches those around an environment, of administration and of signing in when they are wanted.
cargo leptos build --release --split --lib-features split >&2
site=$target/site
[ -d "$site" ] || site=$root/target/site
rm -rf "$target/release/site"
cp -r "$site" "$target/release/site"
# Descriptions for compilers; no browser reads them.
find "$target/release/site/pkg" -name '*.d.ts' -delete -o -name '*.d.*.ts' -delete
node "$root/scripts/short-imports.mjs" "$target/release/site/pkg"
# Compressed once here, so that no request compresses again.
find "$target/release/site" -type f \( -name '*.wasm' -o -name '*.js' -o -name '*.css' -o -name '*.svg' -o -name '*.txt' \) -print0 |
  xargs -0 -r -n 8 -P 2 sh -c 'for f; do brotli -kf -q 11 "$f" && gzip -kf9 "$f"; done' sh
touch "$bin"
