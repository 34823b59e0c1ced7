//! Settings: options, then `GROUNDWORK_…` variables, then the configuration file, then defaults. The only module that
//! reads environment variables.

pub mod client;
mod file;
pub mod volumes;

use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    time::Duration,
};

use domain::{
    compute::Machine,
    host_groups::HostGroups,
    limits::{CPU_MILLI_DEFAULT, CPU_MILLI_MAX, MEMORY_MIB_DEFAULT, MEMORY_MIB_MAX},
    network_policy::Cidr,
};
use execution::{
    images::Login,
    oci::{HostSettings, RuntimeKind, Volume},
};
pub use file::File;
use http::Uri;
use ipnet::IpNet;

use crate::{
    cli::{Places, ServeArgs},
    fatal::Fatal,
};

/// The runner image that environments start from unless the configuration names another.
pub const RUNNER_IMAGE_DEFAULT: &str = "groundwork/runner:full";

/// Everything that can be set, with defaults filled in.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Where to listen.
    pub listen: SocketAddr,
    /// Absolute path of the data directory.
    pub data: PathBuf,
    /// Database URL.
    pub database: Database,
    /// How the outside reaches the server, without a trailing slash; `None`: as the request says.
    pub public_url: Option<PublicUrl>,
    /// Peers whose `X-Forwarded-…` headers count.
    pub trusted_proxies: Vec<IpNet>,
    /// The console's files; `None`: beside the binary.
    pub site: Option<PathBuf>,
    /// What is logged, as a `tracing` filter.
    pub log: String,
    /// How sign-ins behave.
    pub sign_in: SignIn,
    /// Requests per key and per address.
    pub rate_limit: RateLimit,
    /// The worker in this process.
    pub worker: Worker,
    /// Runner image reference that environments boot.
    pub runner_image: String,
    /// File with the key that secret variables are sealed with; `None`: one in the data directory.
    pub secrets_key_file: Option<PathBuf>,
    /// Who registries are asked as.
    pub registry_login: Login,
    /// Bytes that setup images may take together; `None`: no limit.
    pub images_max_bytes: Option<u64>,
    /// OCI runtime command: `crun` or `runc`, or a path to one.
    pub runtime: PathBuf,
    /// Which of the two it is.
    pub runtime_kind: RuntimeKind,
    /// What of the operator's settings every sandbox gets.
    pub sandbox: HostSettings,
    /// Private networks that the deployment opens to sandboxes.
    pub open_networks: Vec<Cidr>,
    /// Addresses of the control plane that no sandbox reaches, besides those of the worker's machine.
    pub own_addresses: Vec<IpAddr>,
    /// The largest machine that environments may ask for.
    pub machine: Machine,
    /// Directories of this machine that environments can mount, by name.
    pub volumes: Vec<Volume>,
    /// Sets of hosts that the console offers by name and the templates allow.
    pub host_groups: HostGroups,
}

/// Which database.
#[derive(Clone, PartialEq, Eq)]
pub enum Database {
    /// A SQLite file.
    Sqlite(PathBuf),
    /// A PostgreSQL URL; may hold a password.
    Postgres(String),
}

impl std::fmt::Debug for Database {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Sqlite(path) => write!(f, "Sqlite({})", path.display()),
            Self::Postgres(_) => f.write_str("Postgres(…)"),
        }
    }
}

/// How the outside reaches the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublicUrl {
    /// `https` or `http`.
    pub scheme: String,
    /// Host and port as a browser writes them in `Origin`.
    pub authority: String,
}

impl PublicUrl {
    /// As text, without a trailing slash.
    pub fn base(&self) -> String {
        format!("{}://{}", self.scheme, self.authority)
    }
}

/// How sign-ins behave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SignIn {
    /// A sign-in that is not used for this long ends.
    pub idle: Duration,
}

/// Requests per key and per address: a bucket of `burst` that refills `per_second`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateLimit {
    /// Sustained requests a second of one API key.
    pub key_per_second: u32,
    /// Requests one API key may make at once.
    pub key_burst: u32,
    /// Sustained requests a second of one address.
    pub address_per_second: u32,
    /// Requests one address may make at once.
    pub address_burst: u32,
}

/// The worker in this process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Worker {
    /// Whether there is one.
    pub enabled: bool,
    /// Its name; `None`: the host's.
    pub name: Option<String>,
    /// Runs at once.
    pub capacity: u32,
    /// Sessions at once, beside the runs.
    pub session_slots: u32,
}

impl Settings {
    /// For `serve`.
    pub fn for_serve(args: &ServeArgs) -> Result<Self, Fatal> {
        let mut settings = Self::for_places(&args.places)?;
        if let Some(listen) = args.listen {
            settings.listen = listen;
        }
        if args.no_worker {
            settings.worker.enabled = false;
        }
        Ok(settings)
    }

    /// For the other commands.
    pub fn for_places(places: &Places) -> Result<Self, Fatal> {
        let file = match &places.config {
            Some(path) => File::read(path)?,
            None => File::default(),
        };
        let data = places
            .data
            .clone()
            .or_else(|| file.data.clone())
            .unwrap_or_else(|| PathBuf::from("data"));
        let data = std::path::absolute(&data).map_err(|e| Fatal::io("find", &data, &e))?;
        let database = match places.database.clone().or_else(|| file.database.clone()) {
            Some(url) => parse_database(&url)?,
            None => Database::Sqlite(data.join("groundwork.sqlite3")),
        };
        let limits = &file.rate_limit;
        let runtime = file
            .runtime
            .command
            .clone()
            .unwrap_or_else(|| PathBuf::from("crun"));
        Ok(Self {
            listen: file
                .listen
                .unwrap_or_else(|| SocketAddr::from((Ipv4Addr::LOCALHOST, 3000))),
            data,
            database,
            public_url: file
                .public_url
                .as_deref()
                .map(parse_public_url)
                .transpose()?,
            trusted_proxies: file
                .trusted_proxies
                .iter()
                .map(|text| parse_net(text))
                .collect::<Result<_, _>>()?,
            site: file.site.clone(),
            log: env("GROUNDWORK_LOG")
                .or_else(|| file.log.clone())
                .unwrap_or_else(|| "info".to_owned()),
            sign_in: SignIn {
                idle: Duration::from_secs(
                    u64::from(in_range(
                        "sign_in.idle_days",
                        file.sign_in.idle_days.unwrap_or(7),
                        1,
                        90,
                    )?) * 86_400,
                ),
            },
            rate_limit: RateLimit {
                key_per_second: in_range(
                    "rate_limit.key_per_second",
                    limits.key_per_second.unwrap_or(50),
                    1,
                    100_000,
                )?,
                key_burst: in_range(
                    "rate_limit.key_burst",
                    limits.key_burst.unwrap_or(200),
                    1,
                    100_000,
                )?,
                address_per_second: in_range(
                    "rate_limit.address_per_second",
                    limits.address_per_second.unwrap_or(100),
                    1,
                    100_000,
                )?,
                address_burst: in_range(
                    "rate_limit.address_burst",
                    limits.address_burst.unwrap_or(400),
                    1,
                    100_000,
                )?,
            },
            worker: Worker {
                enabled: file.worker.enabled.unwrap_or(true),
                name: file.worker.name.clone(),
                capacity: in_range("worker.capacity", file.worker.capacity.unwrap_or(4), 1, 64)?,
                session_slots: in_range(
                    "worker.session_slots",
                    file.worker.session_slots.unwrap_or(32),
                    1,
                    256,
                )?,
            },
            runner_image: env("GROUNDWORK_RUNNER_IMAGE")
                .or_else(|| file.runner.image.clone())
                .unwrap_or_else(|| RUNNER_IMAGE_DEFAULT.to_owned()),
            secrets_key_file: file.secrets.key_file.clone(),
            registry_login: registry_login()?,
            images_max_bytes: file
                .images
                .max_gib
                .map(|gib| in_range("images.max_gib", gib, 1, 1_048_576))
                .transpose()?
                .map(|gib| u64::from(gib) << 30),
            runtime_kind: runtime_kind(&runtime)?,
            runtime,
            sandbox: HostSettings {
                ca_certificates: file
                    .sandbox
                    .ca_certificates
                    .clone()
                    .unwrap_or_else(|| machine_certificates(Path::new(MACHINE_CERTIFICATES))),
                apt_conf: file.sandbox.apt_conf.clone(),
                env: file.sandbox.env.clone(),
                files: file.sandbox.files.clone(),
            },
            open_networks: open_networks(&file.sandbox.open_networks)?,
            own_addresses: file.sandbox.own_addresses.clone(),
            volumes: volumes::read(&file.volumes)?,
            host_groups: host_groups(&file.host_groups)?,
            machine: Machine {
                cpu_milli: in_range(
                    "compute.cpu_milli",
                    file.compute.cpu_milli.unwrap_or(CPU_MILLI_MAX),
                    CPU_MILLI_DEFAULT,
                    CPU_MILLI_MAX,
                )?,
                memory_mib: in_range(
                    "compute.memory_mib",
                    file.compute.memory_mib.unwrap_or(MEMORY_MIB_MAX),
                    MEMORY_MIB_DEFAULT,
                    MEMORY_MIB_MAX,
                )?,
            },
        })
    }
}

/// The first admin, from `GROUNDWORK_ADMIN_EMAIL` and `GROUNDWORK_ADMIN_PASSWORD`.
pub struct FirstAdmin {
    /// Address.
    pub email: String,
    /// Password, in clear.
    pub password: String,
}

impl FirstAdmin {
    /// Reads both variables; one without the other is refused.
    pub fn from_env() -> Result<Option<Self>, Fatal> {
        match (
            env("GROUNDWORK_ADMIN_EMAIL"),
            env("GROUNDWORK_ADMIN_PASSWORD"),
        ) {
            (Some(email), Some(password)) => Ok(Some(Self { email, password })),
            (None, None) => Ok(None),
            (Some(_), None) => Err(Fatal::new(
                "GROUNDWORK_ADMIN_EMAIL is set but GROUNDWORK_ADMIN_PASSWORD is not; set both or neither.",
            )),
            (None, Some(_)) => Err(Fatal::new(
                "GROUNDWORK_ADMIN_PASSWORD is set but GROUNDWORK_ADMIN_EMAIL is not; set both or neither.",
            )),
        }
    }
}

/// Who registries are asked as, from `GROUNDWORK_REGISTRY_USERNAME` and `GROUNDWORK_REGISTRY_PASSWORD`.
fn registry_login() -> Result<Login, Fatal> {
    match (
        env("GROUNDWORK_REGISTRY_USERNAME"),
        env("GROUNDWORK_REGISTRY_PASSWORD"),
    ) {
        (Some(user), Some(password)) => Ok(Login::Basic(user, password)),
        (None, None) => Ok(Login::Anonymous),
        _ => Err(Fatal::new(
            "Of GROUNDWORK_REGISTRY_USERNAME and GROUNDWORK_REGISTRY_PASSWORD only one is set; set both or neither.",
        )),
    }
}

/// A variable that is set and not empty.
fn env(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// Where cargo-leptos put the console's files, in watch mode.
pub fn site_from_build_tool() -> Option<PathBuf> {
    env("LEPTOS_SITE_ROOT").map(PathBuf::from)
}

/// The built-in groups, with those of the configuration in place of their namesakes or beside them.
fn host_groups(configured: &BTreeMap<String, Vec<String>>) -> Result<HostGroups, Fatal> {
    let configured = HostGroups(configured.clone());
    configured.check().map_err(|issues| {
        Fatal::new(format!(
            "The setting host_groups has {}",
            issues
                .0
                .iter()
                .map(|issue| format!("{}: {}", issue.path, issue.message))
                .collect::<Vec<_>>()
                .join(" ")
        ))
    })?;
    let mut groups = HostGroups::built_in();
    groups.0.extend(configured.0);
    Ok(groups)
}

fn open_networks(ranges: &[String]) -> Result<Vec<Cidr>, Fatal> {
    ranges
        .iter()
        .map(|text| {
            let range: Cidr = text.parse().map_err(|_| {
                Fatal::new(format!(
                    "The setting sandbox.open_networks holds {text}; write ADDRESS/BITS, such as 10.20.0.0/16."
                ))
            })?;
            if range.opens_nothing() {
                return Err(Fatal::new(format!(
                    "The setting sandbox.open_networks holds {text}, but loopback, link-local, metadata and multicast addresses are never opened to sandboxes; remove it, or name the private network that sandboxes are to reach, such as 10.20.0.0/16."
                )));
            }
            Ok(range)
        })
        .collect()
}

fn in_range(name: &str, value: u32, least: u32, most: u32) -> Result<u32, Fatal> {
    if (least..=most).contains(&value) {
        Ok(value)
    } else {
        Err(Fatal::new(format!(
            "The setting {name} is {value}; use a number from {least} to {most}."
        )))
    }
}

/// The program's name tells which runtime it is: the two take different options.
fn runtime_kind(command: &Path) -> Result<RuntimeKind, Fatal> {
    match command.file_name().and_then(|name| name.to_str()) {
        Some("crun") => Ok(RuntimeKind::Crun),
        Some("runc") => Ok(RuntimeKind::Runc),
        _ => Err(Fatal::new(format!(
            "The setting runtime.command is {}; use crun, runc, or a path to one of them.",
            command.display()
        ))),
    }
}

fn parse_net(text: &str) -> Result<IpNet, Fatal> {
    text.parse::<IpNet>()
        .or_else(|_| text.parse::<IpAddr>().map(IpNet::from))
        .map_err(|_| {
            Fatal::new(format!(
                "The setting trusted_proxies holds {text:?}; use addresses such as 10.0.0.1 or 10.0.0.0/8."
            ))
        })
}

fn parse_public_url(text: &str) -> Result<PublicUrl, Fatal> {
    let refuse = || {
        Fatal::new(format!(
            "The setting public_url is {text:?}; use scheme and host alone, such as https://groundwork.example.com."
        ))
    };
    let uri: Uri = text.parse().map_err(|_| refuse())?;
    let scheme = uri.scheme_str().ok_or_else(refuse)?;
    let authority = uri.authority().ok_or_else(refuse)?.as_str();
    let path_is_empty = uri
        .path_and_query()
        .is_none_or(|path| matches!(path.as_str(), "" | "/"));
    if !matches!(scheme, "http" | "https") || authority.contains('@') || !path_is_empty {
        return Err(refuse());
    }
    Ok(PublicUrl {
        scheme: scheme.to_owned(),
        authority: authority.to_ascii_lowercase(),
    })
}

fn parse_database(url: &str) -> Result<Database, Fatal> {
    if url.starts_with("postgres://") || url.starts_with("postgresql://") {
        return Ok(Database::Postgres(url.to_owned()));
    }
    if let Some(path) = url.strip_prefix("sqlite:") {
        let path = path.strip_prefix("//").unwrap_or(path);
        if !path.is_empty() {
            let path = Path::new(path);
            return std::path::absolute(path)
                .map(Database::Sqlite)
                .map_err(|e| Fatal::io("find", path, &e));
        }
    }
    // The URL may hold a password: it is not repeated.
    Err(Fatal::new(
        "The database URL is not understood; use sqlite:PATH or postgres://USER@HOST/NAME.",
    ))
}

#[cfg(test)]
mod tests;

/// Where Debian's `update-ca-certificates` finds what an operator added.
const MACHINE_CERTIFICATES: &str = "/usr/local/share/ca-certificates";

/// The certificates that this machine's operator trusts: behind an inspecting proxy no sandbox could fetch anything
/// without them.
fn machine_certificates(directory: &Path) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = std::fs::read_dir(directory)
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|end| end == "crt") && path.is_file())
        .collect();
    found.sort();
    found
}
