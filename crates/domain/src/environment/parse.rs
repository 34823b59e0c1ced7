//! Reading a create body, and the fields that it shares with an update.

use serde_json::{Map, Value};

use super::{
    COMPUTER_USE_PORT, Catalog, Definition, SCOPE_ORGANIZATION, Setup, TemplateRef, access,
};
use crate::{
    compute, env_vars,
    issues::Issues,
    json::{Object, check_safe_integers, join},
    limits, mounts,
    network_policy::NetworkPolicy,
    setup_script,
};

/// The fields that both a create and an update body may hold.
pub(super) const SHARED_FIELDS: [&str; 18] = [
    "name",
    "description",
    "metadata",
    "scope",
    "provider",
    "config",
    "setup",
    "resources",
    "network_policy",
    "privileged",
    "pvc_size_gi",
    "env_vars",
    "mounts",
    "secrets",
    "computer_use",
    "http_port",
    "idle_stop_after_seconds",
    "stopped_delete_after_seconds",
];

/// The fields of a body that were given, each checked by itself.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Given {
    pub(super) name: Option<String>,
    pub(super) description: Option<String>,
    pub(super) metadata: Option<Map<String, Value>>,
    pub(super) provider: Option<String>,
    pub(super) config: Option<Map<String, Value>>,
    pub(super) setup: Option<Setup>,
    pub(super) resources: Option<compute::Resources>,
    pub(super) network_policy: Option<NetworkPolicy>,
    pub(super) privileged: Option<bool>,
    pub(super) pvc_size_gi: Option<u32>,
    pub(super) env_vars: Option<std::collections::BTreeMap<String, String>>,
    pub(super) mounts: Option<Vec<mounts::Mount>>,
    pub(super) computer_use: Option<bool>,
    pub(super) http_port: Option<u16>,
    pub(super) idle_stop_after_seconds: Option<u32>,
    pub(super) stopped_delete_after_seconds: Option<u32>,
}

/// Reads the body of a create call: checks every field, fills in defaults, normalises.
///
/// # Errors
/// One issue for each rejected field.
pub fn parse_create(body: &Value, catalog: &Catalog) -> Result<Definition, Issues> {
    let mut issues = Issues::new();
    let known: Vec<&str> = SHARED_FIELDS.iter().copied().chain(["template"]).collect();
    let Some(object) = Object::open(body, "", &known, &mut issues) else {
        return Err(issues);
    };
    if object.get("name").is_none() {
        issues.add("name", "Required: give the environment a name.");
    }
    let given = read_given(&object, catalog, &mut issues);
    let template = object
        .get("template")
        .and_then(|value| read_template(value, &mut issues));
    let default_provider = catalog.providers.first().map(|p| p.provider.clone());
    let provider = given.provider.or(default_provider).unwrap_or_default();
    if object.get("provider").is_none_or(Value::is_string)
        && !catalog.providers.iter().any(|p| p.provider == provider)
    {
        let offered: Vec<&str> = catalog
            .providers
            .iter()
            .map(|p| p.provider.as_str())
            .collect();
        issues.add(
            "provider",
            format!(
                "There is no runtime {provider:?}. Offered here: {}.",
                offered.join(", ")
            ),
        );
    }
    let computer_use = given.computer_use.unwrap_or(false);
    let definition = Definition {
        name: given.name.unwrap_or_default(),
        description: given.description.unwrap_or_default(),
        metadata: given.metadata,
        template,
        provider,
        image: catalog.runner_image.clone(),
        config: given.config,
        setup: given.setup.unwrap_or_default(),
        resources: given.resources.unwrap_or_default(),
        network_policy: given
            .network_policy
            .unwrap_or_else(NetworkPolicy::no_access),
        privileged: given.privileged.unwrap_or(false),
        pvc_size_gi: given.pvc_size_gi.unwrap_or(0),
        env_vars: given.env_vars.unwrap_or_default(),
        mounts: given.mounts.unwrap_or_default(),
        computer_use,
        http_port: if computer_use {
            COMPUTER_USE_PORT
        } else {
            given.http_port.unwrap_or(0)
        },
        idle_stop_after_seconds: given.idle_stop_after_seconds.unwrap_or(0),
        stopped_delete_after_seconds: given.stopped_delete_after_seconds.unwrap_or(0),
    };
    if object.get("resources").is_none() {
        check_default_size(catalog, &mut issues);
    }
    if computer_use {
        check_computer_use_offered(catalog, &mut issues);
    }
    check_idle_stop(&definition, &mut issues);
    // A policy that could not be read has its own issues already.
    if object.get("network_policy").is_none() || !policy_is_wrong(&issues) {
        access::check(&definition, catalog, &mut issues);
    }
    issues.into_result(definition)
}

fn policy_is_wrong(issues: &Issues) -> bool {
    issues
        .0
        .iter()
        .any(|issue| issue.path.starts_with("network_policy"))
}

/// Even the default size must be offered.
fn check_default_size(catalog: &Catalog, issues: &mut Issues) {
    let (cpu, memory) = (limits::CPU_MILLI_DEFAULT, limits::MEMORY_MIB_DEFAULT);
    if let Some(nearest) = catalog.sizes.nearest(cpu, memory)
        && !catalog.sizes.offers(cpu, memory)
    {
        issues.add(
            "resources",
            format!(
                "No machine offers the default of {} and {}. The nearest size offered is {nearest}: send it.",
                compute::show_cpu(cpu),
                compute::show_memory(memory)
            ),
        );
    }
}

pub(super) fn check_computer_use_offered(catalog: &Catalog, issues: &mut Issues) {
    if !catalog.computer_use {
        issues.add(
            "computer_use",
            "This deployment offers no computer use: send false or leave it out.",
        );
    }
}

/// With computer use on, a short idle stop would end a desktop that somebody looks at.
pub(super) fn check_idle_stop(definition: &Definition, issues: &mut Issues) {
    let seconds = definition.idle_stop_after_seconds;
    if definition.computer_use && seconds != 0 && seconds < limits::IDLE_STOP_MIN_COMPUTER_USE {
        issues.add(
            "idle_stop_after_seconds",
            format!(
                "With computer use on it must be 0 (the default) or at least {} seconds, not {seconds}.",
                limits::IDLE_STOP_MIN_COMPUTER_USE
            ),
        );
    }
}

pub(super) fn read_given(object: &Object<'_>, catalog: &Catalog, issues: &mut Issues) -> Given {
    check_scope_and_secrets(object, issues);
    Given {
        name: read_name(object, issues),
        description: read_description(object, issues),
        metadata: read_metadata(object, issues),
        provider: object.string("provider", issues).map(str::to_owned),
        config: read_config(object, catalog, issues),
        setup: object
            .get("setup")
            .and_then(|value| read_setup(value, issues)),
        resources: object
            .get("resources")
            .and_then(|value| compute::read(value, "resources", catalog, issues)),
        network_policy: object.get("network_policy").and_then(
            |value| match NetworkPolicy::from_json(value, "network_policy") {
                Ok(policy) => Some(policy),
                Err(mut wrong) => {
                    issues.0.append(&mut wrong.0);
                    None
                }
            },
        ),
        privileged: object.boolean("privileged", issues),
        pvc_size_gi: object.zero_or_range("pvc_size_gi", (1, limits::DISK_GI_MAX), " GiB", issues),
        env_vars: object
            .get("env_vars")
            .and_then(|value| env_vars::read(value, "env_vars", issues)),
        mounts: object
            .get("mounts")
            .and_then(|value| mounts::read(value, "mounts", catalog, issues)),
        computer_use: object.boolean("computer_use", issues),
        http_port: read_port(object, issues),
        idle_stop_after_seconds: object.zero_or_range(
            "idle_stop_after_seconds",
            (limits::IDLE_STOP_MIN, limits::IDLE_STOP_MAX),
            " seconds",
            issues,
        ),
        stopped_delete_after_seconds: object.zero_or_range(
            "stopped_delete_after_seconds",
            (limits::STOPPED_DELETE_MIN, limits::STOPPED_DELETE_MAX),
            " seconds",
            issues,
        ),
    }
}

fn check_scope_and_secrets(object: &Object<'_>, issues: &mut Issues) {
    if let Some(scope) = object.string("scope", issues)
        && !scope.is_empty()
        && scope != SCOPE_ORGANIZATION
    {
        issues.add("scope", "Must be \"organization\", or left out.");
    }
    if let Some(value) = object.get("secrets")
        && let Some(secrets) = Object::open_any(value, "secrets", issues)
        && !secrets.map.is_empty()
    {
        issues.add(
            "secrets",
            "No longer supported here: leave it out, and set secret variables through their own call.",
        );
    }
}

fn read_name(object: &Object<'_>, issues: &mut Issues) -> Option<String> {
    let name = object.string("name", issues)?.trim();
    let characters = name.chars().count();
    if name.is_empty() {
        issues.add("name", "Must not be blank.");
    }
    if characters > limits::NAME_MAX_CHARS {
        issues.add(
            "name",
            format!(
                "Has {characters} characters; at most {} are allowed.",
                limits::NAME_MAX_CHARS
            ),
        );
    }
    if name.chars().any(char::is_control) {
        issues.add("name", "Must be one line without control characters.");
    }
    Some(name.to_owned())
}

fn read_description(object: &Object<'_>, issues: &mut Issues) -> Option<String> {
    let description = object.string("description", issues)?;
    let characters = description.chars().count();
    if characters > limits::DESCRIPTION_MAX_CHARS {
        issues.add(
            "description",
            format!(
                "Has {characters} characters; at most {} are allowed.",
                limits::DESCRIPTION_MAX_CHARS
            ),
        );
    }
    Some(description.to_owned())
}

fn read_metadata(object: &Object<'_>, issues: &mut Issues) -> Option<Map<String, Value>> {
    let value = object.get("metadata")?;
    let metadata = Object::open_any(value, "metadata", issues)?;
    check_safe_integers(value, "metadata", issues);
    let bytes = value.to_string().len();
    if bytes > limits::METADATA_MAX_BYTES {
        issues.add(
            "metadata",
            format!(
                "Has {bytes} bytes as JSON; at most {} are allowed.",
                limits::METADATA_MAX_BYTES
            ),
        );
    }
    Some(metadata.map.clone())
}

fn read_config(
    object: &Object<'_>,
    catalog: &Catalog,
    issues: &mut Issues,
) -> Option<Map<String, Value>> {
    let value = object.get("config")?;
    let config = Object::open_any(value, "config", issues)?;
    for key in config.map.keys() {
        if !catalog.config_keys.iter().any(|known| known == key) {
            issues.add(
                join("config", key),
                if catalog.config_keys.is_empty() {
                    "This runtime has no settings of its own: leave it out.".to_owned()
                } else {
                    format!(
                        "The runtime does not know it. Known: {}.",
                        catalog.config_keys.join(", ")
                    )
                },
            );
        }
    }
    check_safe_integers(value, "config", issues);
    Some(config.map.clone())
}

fn read_setup(value: &Value, issues: &mut Issues) -> Option<Setup> {
    let object = Object::open(value, "setup", &["script", "timeout_seconds"], issues)?;
    let script = object.string("script", issues).unwrap_or_default();
    if let Some(problem) = setup_script::problem(script) {
        issues.add("setup.script", problem);
    }
    let timeout_seconds = object
        .zero_or_range(
            "timeout_seconds",
            (limits::SETUP_TIMEOUT_MIN, limits::SETUP_TIMEOUT_MAX),
            " seconds",
            issues,
        )
        .unwrap_or(0);
    Some(Setup {
        script: setup_script::normalise(script),
        timeout_seconds,
    })
}

fn read_port(object: &Object<'_>, issues: &mut Issues) -> Option<u16> {
    let value = object.integer("http_port", issues)?;
    let port = u16::try_from(value).ok();
    if port.is_none() {
        issues.add(
            "http_port",
            format!("Must be 0 (none) or a port up to 65535, not {value}."),
        );
    }
    port
}

fn read_template(value: &Value, issues: &mut Issues) -> Option<TemplateRef> {
    let object = Object::open(value, "template", &["id", "revision"], issues)?;
    object.require("id", issues);
    object.require("revision", issues);
    let id = object.string("id", issues);
    let revision = object.integer("revision", issues);
    Some(TemplateRef {
        id: id?.to_owned(),
        revision: revision?,
    })
}
