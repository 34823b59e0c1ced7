//! Bodies that the rules read themselves (`domain::environment`), field by field, and therefore have no Rust type of their
//! own: described with the limits' own constants. A test sends what the bounds allow and what they forbid.

use domain::limits::*;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Value, json};

/// The body of a create call.
pub(super) struct CreateEnvironment;
/// The body of an update.
pub(super) struct UpdateEnvironment;

fn schema(value: Value) -> Schema {
    Schema::try_from(value).unwrap_or_default()
}

impl JsonSchema for CreateEnvironment {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "CreateEnvironment".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let mut properties = shared();
        properties["template"] = json!({
            "type": "object",
            "description": "The template that it was made from, for the record.",
            "properties": {
                "id": {"type": "string", "description": "The template's id."},
                "revision": {"type": "integer", "description": "Its revision."},
            },
            "required": ["id", "revision"],
            "additionalProperties": false,
        });
        schema(json!({
            "type": "object",
            "description": "A new environment: only the name is required.",
            "properties": properties,
            "required": ["name"],
            "additionalProperties": false,
        }))
    }
}

impl JsonSchema for UpdateEnvironment {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "UpdateEnvironment".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let mut properties = shared();
        properties["expected_access"] = json!({
            "type": "object",
            "description": "What you believe is saved. Required when the update changes a saved policy other than `{}` or \
                            turns `privileged` on (`428` without it, `412` when it differs).",
            "properties": {
                "network_policy": {"$ref": "#/components/schemas/NetworkPolicy"},
                "privileged": {"type": "boolean"},
            },
            "required": ["network_policy", "privileged"],
            "additionalProperties": false,
        });
        schema(json!({
            "type": "object",
            "description": "A partial update: what is left out keeps its saved value. `setup`, `resources`, \
                            `network_policy`, `env_vars` and `mounts` are each replaced as a whole.",
            "properties": properties,
            "minProperties": 1,
            "additionalProperties": false,
        }))
    }
}

/// 0, which stands for the default, or a range.
fn zero_or(least: u32, most: u32, text: &str) -> Value {
    json!({
        "type": "integer",
        "description": text,
        "anyOf": [{"const": 0}, {"minimum": least, "maximum": most}],
    })
}

fn shared() -> Value {
    json!({
        "name": {
            "type": "string", "minLength": 1, "maxLength": NAME_MAX_CHARS, "pattern": "\\S",
            "description": "One line for people; trimmed. Need not be unique.",
        },
        "description": {
            "type": "string", "maxLength": DESCRIPTION_MAX_CHARS,
            "description": "For people; `\"\"` clears it.",
        },
        "metadata": {
            "type": "object",
            "description": "Your own, returned unchanged: at most 16 KiB as JSON; integers within ±(2^53−1).",
        },
        "scope": {"type": "string", "enum": ["organization", ""], "description": "The only value is `organization`."},
        "provider": {
            "type": "string",
            "description": "The kind of sandbox, as listed by `GET /managed-agents/v1/sandbox-providers`; the first one \
                            unless given. Never changes after creation.",
        },
        "config": {
            "type": "object",
            "description": "Settings of the provider; keys that it does not know are refused.",
        },
        "setup": {
            "type": "object",
            "description": "The setup script and its timeout, replaced as a whole; `{\"script\": \"\"}` removes it.",
            "properties": {
                "script": {
                    "type": "string", "maxLength": SCRIPT_MAX_BYTES,
                    "description": "Bash, run as the user `sandbox` in `/workspace` with `set -eo pipefail`; at most \
                                    65,536 bytes of UTF-8, without NUL. Saved with LF line ends, without trailing \
                                    white space, and with one LF at its end.",
                },
                "timeout_seconds": zero_or(
                    SETUP_TIMEOUT_MIN, SETUP_TIMEOUT_MAX,
                    "Seconds for the whole script; 0: 600. Past it the script ends with exit code 124.",
                ),
            },
            "additionalProperties": false,
        },
        "resources": {
            "type": "object",
            "description": "The sandbox's size, replaced as a whole. An accelerator comes with 8 vCPU and 32 GiB: leave \
                            `cpu_milli` and `memory_mib` out then.",
            "properties": {
                "cpu_milli": zero_or(CPU_MILLI_MIN, CPU_MILLI_MAX, "Thousandths of a core; 0: 2,000."),
                "memory_mib": zero_or(MEMORY_MIB_MIN, MEMORY_MIB_MAX, "MiB; 0: 4,096."),
                "accelerator": {
                    "type": "object",
                    "description": "A GPU of the deployment's catalog.",
                    "properties": {
                        "name": {"type": "string", "description": "The model."},
                        "type": {"type": "string", "enum": ["gpu"]},
                        "count": {"type": "integer", "minimum": 0, "maximum": 1},
                    },
                    "required": ["name"],
                    "additionalProperties": false,
                },
                "placement": {
                    "type": "object",
                    "description": "Where it runs, where the deployment offers places.",
                    "properties": {"providers": {"type": "array", "items": {"type": "string"}}},
                    "additionalProperties": false,
                },
                "timeout_seconds": zero_or(
                    SANDBOX_TIMEOUT_MIN, SANDBOX_TIMEOUT_MAX,
                    "The sandbox's whole life in seconds; 0: unbounded.",
                ),
            },
            "additionalProperties": false,
        },
        "network_policy": {"$ref": "#/components/schemas/NetworkPolicy"},
        "privileged": {
            "type": "boolean",
            "description": "Docker can run inside; takes `network_policy: {}` and a deployment that offers it.",
        },
        "pvc_size_gi": zero_or(1, DISK_GI_MAX, "Workspace disk in GiB; 0: 10."),
        "env_vars": {
            "type": "object",
            "description": "Variables of every process inside, replaced as a whole; 128 KiB in all. Names that the sandbox \
                            itself reads before each command (`PATH`, `HOME`, `LD_*`, …) are refused.",
            "maxProperties": ENV_VARS_MAX,
            "propertyNames": {"pattern": "^[A-Za-z_][A-Za-z0-9_]*$"},
            "additionalProperties": {"type": "string", "maxLength": ENV_VAR_VALUE_MAX_BYTES},
        },
        "mounts": {
            "type": "array",
            "description": "Volumes and files put inside before the script, replaced as a whole.",
            "maxItems": MOUNTS_MAX,
            "items": {
                "type": "object",
                "properties": {
                    "source": {
                        "type": "string", "pattern": "^(volume:|https://)",
                        "description": "`volume:NAME` of the deployment, or an `https://` URL of a file of at most 256 MiB.",
                    },
                    "mount_path": {
                        "type": "string", "pattern": "^/",
                        "description": "Absolute, below `/workspace/` or `/mnt/`, without `..`.",
                    },
                },
                "required": ["source", "mount_path"],
                "additionalProperties": false,
            },
        },
        "secrets": {
            "type": "object", "maxProperties": 0,
            "description": "Deprecated: leave it out. Secret variables have a call of their own.", "deprecated": true,
        },
        "computer_use": {
            "type": "boolean",
            "description": "A desktop that an agent can use, where the deployment offers it; `http_port` is 6901 then, and \
                            `idle_stop_after_seconds` must be 0 or at least 600.",
        },
        "http_port": {
            "type": "integer", "minimum": 0, "maximum": 65_535,
            "description": "A port inside that the session exposes over HTTP; 0: none.",
        },
        "idle_stop_after_seconds": zero_or(
            IDLE_STOP_MIN, IDLE_STOP_MAX,
            "Seconds without activity after which a session stops; 0: 1,800.",
        ),
        "stopped_delete_after_seconds": zero_or(
            STOPPED_DELETE_MIN, STOPPED_DELETE_MAX,
            "Seconds for which a stopped session's workspace is kept; 0: 604,800 (a week).",
        ),
    })
}

/// `{}` or rules.
pub(super) fn policy() -> Value {
    json!({
        "description": "Which hosts a sandbox may reach. `{}`: every public host. Otherwise rules in order: the first that \
                        matches decides, and what none allows is blocked; no rules block everything.",
        "anyOf": [
            {"title": "Unrestricted", "type": "object", "maxProperties": 0},
            {
                "title": "Rules",
                "type": "object",
                "properties": {
                    "version": {"const": "v1"},
                    "rules": {
                        "type": "array",
                        "maxItems": NETWORK_RULES_MAX,
                        "items": {
                            "type": "object",
                            "properties": {
                                "match": {
                                    "type": "object",
                                    "properties": {"host_glob": {
                                        "type": "string", "minLength": 1,
                                        "description": "A host without scheme, port or path. `*` stands for one or more \
                                                        characters, dots too: `*.example.com` matches `a.b.example.com`, \
                                                        not `example.com`.",
                                    }},
                                    "required": ["host_glob"],
                                    "additionalProperties": false,
                                },
                                "action": {
                                    "type": "object",
                                    "properties": {"type": {"type": "string", "enum": ["allow", "deny"]}},
                                    "required": ["type"],
                                    "additionalProperties": false,
                                },
                            },
                            "required": ["match", "action"],
                            "additionalProperties": false,
                        },
                    },
                },
                "required": ["version", "rules"],
                "additionalProperties": false,
            },
        ],
    })
}
