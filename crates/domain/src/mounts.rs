//! Volumes and files put into the sandbox (spec 1-domain, *Mounts*).

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    environment::Catalog,
    issues::Issues,
    json::Object,
    limits,
    network_policy::{is_refused_address, normalise_host},
};

/// One mount.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
pub struct Mount {
    /// `volume:NAME` or an `https://` URL.
    pub source: String,
    /// Absolute, under `/workspace/` or `/mnt/`, without `..`.
    pub mount_path: String,
}

/// Where mounts may lie.
const ROOTS: [&str; 2] = ["/workspace/", "/mnt/"];

/// Reads the list of mounts.
pub(crate) fn read(
    value: &Value,
    path: &str,
    catalog: &Catalog,
    issues: &mut Issues,
) -> Option<Vec<Mount>> {
    let Value::Array(items) = value else {
        issues.add(path, "Must be a list.");
        return None;
    };
    if !items.is_empty() && !catalog.mounts {
        issues.add(
            path,
            "This deployment offers no mounts. Send [], and fetch what you need in the setup script.",
        );
    }
    if items.len() > limits::MOUNTS_MAX {
        issues.add(
            path,
            format!(
                "At most {} mounts, not {}.",
                limits::MOUNTS_MAX,
                items.len()
            ),
        );
    }
    let mut mounts: Vec<Mount> = Vec::new();
    for (index, item) in items.iter().enumerate() {
        let at = format!("{path}[{index}]");
        let Some(object) = Object::open(item, &at, &["source", "mount_path"], issues) else {
            continue;
        };
        object.require("source", issues);
        object.require("mount_path", issues);
        let source = object.string("source", issues);
        if let Some(problem) = source.and_then(|source| source_problem(source, catalog)) {
            issues.add(object.path_of("source"), problem);
        }
        let mount_path = object
            .string("mount_path", issues)
            .and_then(|text| match normalise_path(text) {
                Ok(path) => Some(path),
                Err(problem) => {
                    issues.add(object.path_of("mount_path"), problem);
                    None
                }
            });
        let (Some(source), Some(mount_path)) = (source, mount_path) else {
            continue;
        };
        if let Some(problem) = collision(&mounts, &mount_path) {
            issues.add(object.path_of("mount_path"), problem);
        }
        mounts.push(Mount {
            source: source.to_owned(),
            mount_path,
        });
    }
    Some(mounts)
}

/// Why a volume cannot have this name; `None` when it can.
pub fn volume_name_problem(name: &str) -> Option<&'static str> {
    let letter = |c: char| c.is_ascii_alphanumeric();
    let good = (1..=limits::VOLUME_NAME_MAX).contains(&name.len())
        && name.starts_with(letter)
        && name
            .chars()
            .all(|c| letter(c) || matches!(c, '-' | '_' | '.'));
    (!good).then_some(
        "use at most 63 letters, digits, \"-\", \"_\" and \".\", beginning with a letter or digit",
    )
}

/// A source as logs and messages show it: an address without its query, which may hold a token, and without a fragment.
pub fn shown_source(source: &str) -> String {
    match source.find(['?', '#']) {
        Some(end) if source.starts_with("https://") => format!("{}?…", &source[..end]),
        _ => source.to_owned(),
    }
}

/// What is wrong with putting something at `path` beside these. One mount within another would need a place inside a
/// volume, which may be read-only, and would write into one that is not.
fn collision(mounts: &[Mount], path: &str) -> Option<String> {
    let within = |inner: &str, outer: &str| {
        inner
            .strip_prefix(outer)
            .is_some_and(|rest| rest.starts_with('/'))
    };
    mounts.iter().find_map(|other| {
        let other = other.mount_path.as_str();
        if other == path {
            Some("Another mount has this path already.".to_owned())
        } else if within(path, other) || within(other, path) {
            Some(format!(
                "One mount cannot lie within another: {other} is a mount too. Choose a path beside it."
            ))
        } else {
            None
        }
    })
}

/// The path without repeated slashes, `.` parts and a final slash.
fn normalise_path(text: &str) -> Result<String, String> {
    if text.chars().any(char::is_control) {
        return Err("A path holds no control characters.".to_owned());
    }
    if text.split('/').any(|part| part == "..") {
        return Err("Write the path without \"..\".".to_owned());
    }
    let parts: Vec<&str> = text
        .split('/')
        .filter(|part| !part.is_empty() && *part != ".")
        .collect();
    let path = format!("/{}", parts.join("/"));
    if path.len() > limits::MOUNT_PATH_MAX || parts.iter().any(|part| part.len() > 255) {
        return Err(format!(
            "At most {} bytes, and 255 for each name in it.",
            limits::MOUNT_PATH_MAX
        ));
    }
    if text.starts_with('/') && ROOTS.iter().any(|root| path.starts_with(root)) {
        Ok(path)
    } else {
        Err("Must be an absolute path below /workspace/ or /mnt/.".to_owned())
    }
}

fn source_problem(source: &str, catalog: &Catalog) -> Option<String> {
    if let Some(name) = source.strip_prefix("volume:") {
        return (!catalog.volumes.iter().any(|volume| volume == name)).then(|| {
            if catalog.volumes.is_empty() {
                "This deployment has no volumes; use an https:// URL.".to_owned()
            } else {
                format!(
                    "There is no volume {name:?}. Volumes here: {}.",
                    catalog.volumes.join(", ")
                )
            }
        });
    }
    let Some(rest) = source.strip_prefix("https://") else {
        return Some("Must be volume:NAME or an https:// URL.".to_owned());
    };
    if source.chars().any(|c| c.is_whitespace() || c.is_control()) {
        return Some("A URL holds no white space: write it percent-encoded.".to_owned());
    }
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if authority.contains('@') {
        return Some(
            "A URL with a user name or password would be readable to every member: use a URL without them."
                .to_owned(),
        );
    }
    let (host, port) = match authority.rsplit_once(':') {
        // The colons of an IPv6 literal stand inside its brackets.
        Some((host, port)) if !port.ends_with(']') => (host, Some(port)),
        _ => (authority, None),
    };
    if port.is_some_and(|port| port.parse::<u16>().is_err()) {
        return Some("The URL's port is not a port.".to_owned());
    }
    match normalise_host(host) {
        None => Some("The URL has no valid host.".to_owned()),
        Some(host) if host.parse().is_ok_and(|ip| is_refused_address(ip, &[])) => {
            Some("Files are never fetched from private addresses.".to_owned())
        }
        Some(_) => None,
    }
}
