//! The host layer: what belongs to the machine and not to an image. It lies above the image's and the saved layers and
//! below the upper, and is never saved. A layer and not bind mounts, because programs such as `update-ca-certificates`
//! rename over such files.

use std::{
    collections::BTreeMap,
    fs, io,
    io::Read,
    os::{
        fd::{AsFd, OwnedFd},
        unix::fs::{MetadataExt, PermissionsExt, lchown},
    },
    path::{Path, PathBuf},
};

use nix::{
    fcntl::{OFlag, OpenHow, ResolveFlag, open, openat2},
    sys::stat::Mode,
};
use sha2::{Digest, Sha256};

use super::config_json::HOSTNAME;
use crate::egress::RESOLV_CONF;

/// `PATH` of every process: a virtual environment in the workspace first, as soon as it exists.
pub(crate) const PATH: &str = "/workspace/.venv/bin:/home/sandbox/.local/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// Where Debian keeps all trusted certificates in one file.
const BUNDLE: &str = "etc/ssl/certs/ca-certificates.crt";
/// Largest bundle that is taken over from a layer, in bytes.
const BUNDLE_MAX: u64 = 16 * 1024 * 1024;
/// Changes whenever this file generates something else.
const VERSION: &str = "2";

/// What of this machine sandboxes see, by explicit configuration only.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HostSettings {
    /// Files with certificates (PEM) that sandboxes trust besides their image's.
    pub ca_certificates: Vec<PathBuf>,
    /// Lines for apt's configuration.
    pub apt_conf: String,
    /// Variables of every process; an environment's own win.
    pub env: BTreeMap<String, String>,
    /// Further files by path from the root, such as `etc/pip.conf`; readable by all, owned by root.
    pub files: BTreeMap<PathBuf, String>,
}

impl HostSettings {
    fn certificates(&self) -> io::Result<Vec<String>> {
        let read = |path: &PathBuf| {
            fs::read_to_string(path).map_err(|error| {
                io::Error::new(
                    error.kind(),
                    format!("CA certificate {}: {error}", path.display()),
                )
            })
        };
        self.ca_certificates.iter().map(read).collect()
    }
}

/// Clients that meet a blocked host give up in seconds and not minutes.
pub(super) fn client_settings() -> impl Iterator<Item = (String, String)> {
    [
        ("DEBIAN_FRONTEND", "noninteractive"),
        ("NPM_CONFIG_FETCH_RETRY_MINTIMEOUT", "500"),
        ("NPM_CONFIG_FETCH_RETRY_MAXTIMEOUT", "1500"),
        ("PIP_DISABLE_PIP_VERSION_CHECK", "1"),
        ("PIP_RETRIES", "2"),
        ("UV_HTTP_RETRIES", "1"),
    ]
    .into_iter()
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
}

/// Variables that make every client use the bundle; only needed where the machine adds certificates to it.
pub(super) fn certificate_variables(
    settings: &HostSettings,
) -> impl Iterator<Item = (String, String)> {
    let names: &[&str] = if settings.ca_certificates.is_empty() {
        &[]
    } else {
        &[
            "SSL_CERT_FILE",
            "CURL_CA_BUNDLE",
            "PIP_CERT",
            "REQUESTS_CA_BUNDLE",
            "NODE_EXTRA_CA_CERTS",
            "GIT_SSL_CAINFO",
        ]
    };
    names
        .iter()
        .map(|name| ((*name).to_owned(), format!("/{BUNDLE}")))
}

/// Name of the layer for these settings over this stack.
pub(super) fn key(
    settings: &HostSettings,
    image_digest: &str,
    layers: &[String],
) -> io::Result<String> {
    let mut hash = Sha256::new();
    let mut note = |text: &str| {
        hash.update((text.len() as u64).to_le_bytes());
        hash.update(text);
    };
    for text in [
        VERSION,
        RESOLV_CONF,
        image_digest,
        &layers.join(","),
        &settings.apt_conf,
    ] {
        note(text);
    }
    for certificate in settings.certificates()? {
        note(&certificate);
    }
    for (path, text) in &settings.files {
        note(&path.to_string_lossy());
        note(text);
    }
    Ok(hex::encode(hash.finalize()))
}

/// Generates the layer at `target` unless it is there. `below` are the layers under it, highest first.
///
/// # Errors
/// A certificate can't be read, or the state directory not be written.
pub(super) fn ensure(
    settings: &HostSettings,
    below: &[PathBuf],
    target: &Path,
) -> io::Result<PathBuf> {
    if target.is_dir() {
        return Ok(target.to_owned());
    }
    let partial = target.with_extension("partial");
    if partial.exists() {
        fs::remove_dir_all(&partial)?;
    }
    let stack = Stack::open(below)?;
    let layer = Layer {
        root: partial.clone(),
        stack,
    };
    fs::create_dir(&partial)?;
    layer.take_over_directory(Path::new(""))?;
    layer.write("etc/resolv.conf", RESOLV_CONF, 0o644)?;
    layer.write("etc/hostname", &format!("{HOSTNAME}\n"), 0o644)?;
    // A script's own entries, kept in a saved layer, stay visible; the base image is always below.
    if !layer.stack.saved_has(Path::new("etc/hosts")) {
        let hosts = format!(
            "127.0.0.1 localhost\n127.0.1.1 {HOSTNAME}\n::1 localhost ip6-localhost ip6-loopback\n"
        );
        layer.write("etc/hosts", &hosts, 0o644)?;
    }
    // Without the mode, `apt-get update` succeeds when every mirror is blocked; with all its retries that takes long to tell.
    let apt = format!(
        "APT::Update::Error-Mode \"any\";\nAcquire::Retries \"1\";\n{}",
        settings.apt_conf
    );
    layer.write("etc/apt/apt.conf.d/99groundwork", &apt, 0o644)?;
    // The environment's variables reach every process, also through sudo; root's files do not land in the user's home.
    let sudo = format!("Defaults !env_reset, always_set_home, secure_path=\"{PATH}\"\n");
    layer.write("etc/sudoers.d/60-groundwork", &sudo, 0o440)?;
    let profile = format!(
        "# /etc/profile replaces PATH; this puts what every other process has in front again.\nPATH={PATH}:$PATH\n"
    );
    layer.write("etc/profile.d/groundwork.sh", &profile, 0o644)?;
    for (path, text) in &settings.files {
        layer.write(path, text, 0o644)?;
    }
    let certificates = settings.certificates()?;
    if !certificates.is_empty() {
        let mut bundle = layer
            .stack
            .read(Path::new(BUNDLE), BUNDLE_MAX)
            .unwrap_or_default();
        for (number, certificate) in certificates.iter().enumerate() {
            layer.write(
                format!("usr/local/share/ca-certificates/groundwork-{number}.crt"),
                certificate,
                0o644,
            )?;
            // A saved layer in which the bundle was regenerated has them already.
            if !bundle.contains(certificate.trim()) {
                if !bundle.is_empty() && !bundle.ends_with('\n') {
                    bundle.push('\n');
                }
                bundle.push_str(certificate.trim());
                bundle.push('\n');
            }
        }
        layer.write(BUNDLE, &bundle, 0o644)?;
    }
    fs::rename(&partial, target)?;
    Ok(target.to_owned())
}

/// The layers below. Saved ones are made by members: no symlink in them is ever followed on the host.
struct Stack {
    layers: Vec<OwnedFd>,
}

impl Stack {
    fn open(layers: &[PathBuf]) -> io::Result<Self> {
        let open = |path: &PathBuf| -> io::Result<OwnedFd> {
            Ok(open(
                path,
                OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC,
                Mode::empty(),
            )?)
        };
        Ok(Self {
            layers: layers.iter().map(open).collect::<io::Result<_>>()?,
        })
    }

    fn at(layer: &OwnedFd, path: &Path, flags: OFlag) -> io::Result<fs::File> {
        let path = if path.as_os_str().is_empty() {
            Path::new(".")
        } else {
            path
        };
        let how = OpenHow::new()
            .flags(flags | OFlag::O_CLOEXEC)
            .resolve(ResolveFlag::RESOLVE_BENEATH | ResolveFlag::RESOLVE_NO_SYMLINKS);
        Ok(openat2(layer.as_fd(), path, how)?.into())
    }

    /// Whether a layer above the lowest has the path.
    fn saved_has(&self, path: &Path) -> bool {
        let saved = &self.layers[..self.layers.len().saturating_sub(1)];
        saved
            .iter()
            .any(|layer| Self::at(layer, path, OFlag::O_PATH).is_ok())
    }

    /// The highest directory of this path.
    fn directory(&self, path: &Path) -> Option<fs::Metadata> {
        self.layers.iter().find_map(|layer| {
            Self::at(layer, path, OFlag::O_PATH | OFlag::O_DIRECTORY)
                .ok()?
                .metadata()
                .ok()
        })
    }

    /// The highest regular file of this path, if it is small enough and text.
    fn read(&self, path: &Path, most: u64) -> Option<String> {
        self.layers.iter().find_map(|layer| {
            let file = Self::at(layer, path, OFlag::O_RDONLY | OFlag::O_NONBLOCK).ok()?;
            let meta = file.metadata().ok()?;
            if !meta.is_file() || meta.len() > most {
                return None;
            }
            let mut text = String::new();
            file.take(most).read_to_string(&mut text).ok()?;
            Some(text)
        })
    }
}

/// The layer under way.
struct Layer {
    root: PathBuf,
    stack: Stack,
}

impl Layer {
    /// Mode and owner of a directory come from the highest layer that has it: make ours look like the one it covers.
    fn take_over_directory(&self, path: &Path) -> io::Result<()> {
        let target = self.root.join(path);
        let (mode, uid, gid) = self.stack.directory(path).map_or((0o755, 0, 0), |meta| {
            (meta.mode() & 0o7777, meta.uid(), meta.gid())
        });
        lchown(&target, Some(uid), Some(gid))?;
        fs::set_permissions(&target, fs::Permissions::from_mode(mode))
    }

    fn write(&self, path: impl AsRef<Path>, text: &str, mode: u32) -> io::Result<()> {
        let path = path.as_ref().strip_prefix("/").unwrap_or(path.as_ref());
        let mut made = PathBuf::new();
        for part in path.parent().unwrap_or(Path::new("")).components() {
            made.push(part);
            if !self.root.join(&made).exists() {
                fs::create_dir(self.root.join(&made))?;
                self.take_over_directory(&made)?;
            }
        }
        let target = self.root.join(path);
        fs::write(&target, text)?;
        fs::set_permissions(&target, fs::Permissions::from_mode(mode))
    }
}

#[cfg(test)]
#[path = "host_layer_tests.rs"]
mod tests;
