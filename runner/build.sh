#!/usr/bin/env bash
# Builds a runner image's root file system from Debian packages (run by `groundwork runner-image build`).
#
#   build.sh VARIANT WORK OUT
#
# VARIANT  small | full: the package list beside this script
# WORK     an empty directory for temporary files
# OUT      the directory to unpack into; must not exist
#
# Standard output: lines "step TEXT" for people, and at the end "digest sha256:HEX" of the image as a tar stream.
set -euo pipefail

variant=$1 work=$2 out=$3
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=tools.env disable=SC1091
. "$here/tools.env"
export SOURCE_DATE_EPOCH

step() { printf 'step %s\n' "$*"; }
packages=$(grep -v -e '^#' -e '^$' "$here/$variant.packages" | paste -sd, -)
# The machine's own Debian sources where it has them (a mirror, a snapshot); else mmdebstrap's default mirror.
sources=()
if [ -n "${GROUNDWORK_DEBIAN_SOURCES:-}" ]; then sources=("$GROUNDWORK_DEBIAN_SOURCES")
elif [ -f /etc/apt/sources.list.d/debian.sources ]; then sources=(/etc/apt/sources.list.d/debian.sources)
elif [ -s /etc/apt/sources.list ]; then sources=(/etc/apt/sources.list)
fi

add=$work/add
mkdir -p "$add/usr/local/bin" "$add/usr/local/lib/node_modules" "$add/etc/sudoers.d"

step "fetching uv $UV_VERSION"
python3 -m pip download --quiet --no-deps --only-binary=:all: --disable-pip-version-check --dest "$work/uv" "uv==$UV_VERSION"
python3 - "$work/uv" "$add/usr/local/bin" <<'PY'
import glob, os, sys, zipfile
source, target = sys.argv[1:]
with zipfile.ZipFile(glob.glob(source + "/*.whl")[0]) as wheel:
    for name in wheel.namelist():
        if "/scripts/" in name:
            path = os.path.join(target, os.path.basename(name))
            with open(path, "wb") as out:
                out.write(wheel.read(name))
            os.chmod(path, 0o755)
PY

tools=("npm@$NPM_VERSION")
[ "$variant" = small ] || tools+=("corepack@$COREPACK_VERSION")
step "fetching ${tools[*]}"
for tool in "${tools[@]}"; do
  name=${tool%@*}
  (cd "$work" && npm pack --silent "$tool" >/dev/null)
  mkdir -p "$add/usr/local/lib/node_modules/$name"
  tar -xzf "$work/$name-${tool#*@}.tgz" -C "$add/usr/local/lib/node_modules/$name" --strip-components=1 --no-same-owner
done
ln -s ../lib/node_modules/npm/bin/npm-cli.js "$add/usr/local/bin/npm"
ln -s ../lib/node_modules/npm/bin/npx-cli.js "$add/usr/local/bin/npx"
chmod 755 "$add"/usr/local/lib/node_modules/npm/bin/*.js
if [ "$variant" != small ]; then
  ln -s ../lib/node_modules/corepack/dist/corepack.js "$add/usr/local/bin/corepack"
  chmod 755 "$add"/usr/local/lib/node_modules/corepack/dist/*.js
fi

printf 'sandbox ALL=(ALL:ALL) NOPASSWD: ALL\n' >"$add/etc/sudoers.d/90-sandbox"
chmod 440 "$add/etc/sudoers.d/90-sandbox"
tar -C "$add" --owner=0 --group=0 --numeric-owner --sort=name -cf "$work/add.tar" .

cat >"$work/customize.sh" <<'SH'
set -eu
root=$1
tar -C "$root" -xf "$ADD_TAR" --no-overwrite-dir --keep-directory-symlink
# A login shell's exit code must be the script's: Debian's skeleton ends with a command that fails without a terminal.
rm -f "$root/etc/skel/.bash_logout"
chroot "$root" useradd --uid 1000 --user-group --create-home --shell /bin/bash sandbox
mkdir -p "$root/workspace"
chown 1000:1000 "$root/workspace"
printf '127.0.0.1 localhost sandbox\n::1 localhost ip6-localhost\n' >"$root/etc/hosts"
echo sandbox >"$root/etc/hostname"
: >"$root/etc/machine-id"
rm -f "$root/var/lib/dbus/machine-id" "$root/etc/resolv.conf" "$root/var/cache/ldconfig/aux-cache"
: >"$root/etc/resolv.conf"
rm -rf "$root"/var/lib/apt/lists/* "$root"/var/cache/apt/* "$root"/var/log/* "$root"/tmp/* "$root"/var/tmp/*
mkdir -p "$root/var/lib/apt/lists/partial" "$root/var/cache/apt/archives/partial" "$root/var/log/apt"
# shadow notes the day of a change; the image must not depend on the day it is built.
chroot "$root" chage --lastday 2025-01-01 sandbox
SH

step "installing Debian packages ($(printf '%s' "$packages" | tr ',' '\n' | wc -l) and what they need)"
keep=()
# Some mirrors are frozen at a day: then their files are past their validity, as the machine's own apt is told as well.
if apt-config dump 2>/dev/null | grep -qi 'Acquire::Check-Valid-Until "false"'; then
  keep=(--aptopt='Acquire::Check-Valid-Until "false"' --aptopt='Acquire::Check-Date "false"')
fi
ADD_TAR=$work/add.tar mmdebstrap --quiet --variant=minbase --mode=root --include="$packages" \
  --aptopt='APT::Install-Recommends "false"' "${keep[@]}" \
  --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/doc/*' \
  --dpkgopt='path-include=/usr/share/doc/*/copyright' --dpkgopt='path-exclude=/usr/share/locale/*' \
  --dpkgopt='path-include=/usr/share/locale/locale.alias' \
  --customize-hook="sh $work/customize.sh \"\$1\"" \
  bookworm "$work/image.tar" ${sources[@]+"${sources[@]}"} >&2

step "unpacking"
digest=$(sha256sum "$work/image.tar" | cut -d' ' -f1)
mkdir -p "$out"
tar -C "$out" --xattrs --xattrs-include='*' --numeric-owner --same-permissions -xf "$work/image.tar" --exclude='./dev/*'
printf 'digest sha256:%s\n' "$digest"
