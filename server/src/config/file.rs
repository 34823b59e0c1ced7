//! The configuration file: typed, and a key that is not known is refused by name.

use std::{
    collections::BTreeMap,
    net::{IpAddr, SocketAddr},
    path::{Path, PathBuf},
};

use serde::Deserialize;

use crate::fatal::Fatal;

/// The file's shape. Everything may be left out.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct File {
    /// `--listen`
    pub listen: Option<SocketAddr>,
    /// `--data`
    pub data: Option<PathBuf>,
    /// `--database`
    pub database: Option<String>,
    /// How browsers reach the server, such as `https://groundwork.example.com`.
    pub public_url: Option<String>,
    /// Addresses or networks of reverse proxies whose `X-Forwarded-For` and `X-Forwarded-Proto` count.
    pub trusted_proxies: Vec<String>,
    /// Directory of the console's files, unless they lie beside the binary.
    pub site: Option<PathBuf>,
    /// Log filter, such as `info` or `info,control=debug`.
    pub log: Option<String>,
    /// `[sign_in]`
    pub sign_in: SignIn,
    /// `[rate_limit]`
    pub rate_limit: RateLimit,
    /// `[worker]`
    pub worker: Worker,
    /// `[runner]`
    pub runner: Runner,
    /// `[images]`
    pub images: Images,
    /// `[secrets]`
    pub secrets: Secrets,
    /// `[runtime]`
    pub runtime: Runtime,
    /// `[compute]`
    pub compute: Compute,
    /// `[sandbox]`
    pub sandbox: Sandbox,
    /// `[volumes.NAME]`
    pub volumes: BTreeMap<String, Volume>,
    /// `[host_groups]`: hosts by group name, in place of the built-in group of that name or beside the others.
    pub host_groups: BTreeMap<String, Vec<String>>,
}

/// `[volumes.NAME]`: a directory of the machine that environments can mount.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Volume {
    /// Which.
    pub directory: PathBuf,
    /// Whether sandboxes may change it.
    #[serde(default)]
    pub writable: bool,
}

/// `[sandbox]`: what of the operator's settings every sandbox gets.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Sandbox {
    /// Files with certificates (PEM) that sandboxes trust besides their image's; those that this machine's operator
    /// added to the machine, unless given.
    pub ca_certificates: Option<Vec<PathBuf>>,
    /// Lines for apt's configuration.
    pub apt_conf: String,
    /// Variables of every process; an environment's own win.
    pub env: BTreeMap<String, String>,
    /// Further files by path from the root, such as `etc/pip.conf`.
    pub files: BTreeMap<PathBuf, String>,
    /// Private networks, as ADDRESS/BITS, that sandboxes may reach where their policy allows the host.
    pub open_networks: Vec<String>,
    /// Addresses of the control plane besides those of the worker's machine; no sandbox reaches them.
    pub own_addresses: Vec<IpAddr>,
}

/// `[compute]`: the largest machine that environments may ask for; not below the default size.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Compute {
    /// Thousandths of a core.
    pub cpu_milli: Option<u32>,
    /// MiB.
    pub memory_mib: Option<u32>,
}

/// `[sign_in]`
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SignIn {
    /// Days after which an unused sign-in ends.
    pub idle_days: Option<u32>,
}

/// `[rate_limit]`
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RateLimit {
    /// Sustained requests a second of one API key.
    pub key_per_second: Option<u32>,
    /// Requests one API key may make at once.
    pub key_burst: Option<u32>,
    /// Sustained requests a second of one address.
    pub address_per_second: Option<u32>,
    /// Requests one address may make at once.
    pub address_burst: Option<u32>,
}

/// `[worker]`
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Worker {
    /// Whether `serve` starts one in its own process.
    pub enabled: Option<bool>,
    /// Its name.
    pub name: Option<String>,
    /// Runs at once.
    pub capacity: Option<u32>,
    /// Sessions at once, beside the runs.
    pub session_slots: Option<u32>,
}

/// `[runner]`
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Runner {
    /// Runner image reference.
    pub image: Option<String>,
}

/// `[images]`
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Images {
    /// GiB that setup images may take together; no limit unless given.
    pub max_gib: Option<u32>,
}

/// `[secrets]`
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Secrets {
    /// File with the 32 bytes that secret variables are sealed with; made in the data directory unless given.
    pub key_file: Option<PathBuf>,
}

/// `[runtime]`
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Runtime {
    /// `crun`, `runc` or a path to one.
    pub command: Option<PathBuf>,
}

impl File {
    /// Reads and checks a file.
    pub fn read(path: &Path) -> Result<Self, Fatal> {
        let text = std::fs::read_to_string(path).map_err(|error| {
            Fatal::new(match error.kind() {
                std::io::ErrorKind::NotFound => format!(
                    "The configuration file {} does not exist; check --config.",
                    path.display()
                ),
                _ => format!(
                    "The configuration file {} cannot be read ({error}); check --config.",
                    path.display()
                ),
            })
        })?;
        Self::parse(&text).map_err(|problem| {
            Fatal::new(format!(
                "The configuration file {} is wrong: {problem}.",
                path.display()
            ))
        })
    }

    /// Checks a text; the error is a phrase that names the key and the line.
    pub fn parse(text: &str) -> Result<Self, String> {
        toml::from_str(text).map_err(|error| {
            let message = error.message().trim_end_matches('.').replace('\n', " ");
            match error.span() {
                Some(span) => {
                    let line = text
                        .get(..span.start)
                        .map_or(1, |before| before.matches('\n').count() + 1);
                    format!("line {line}: {message}")
                }
                None => message,
            }
        })
    }
}
