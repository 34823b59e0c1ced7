//! Environments and the catalog.

use domain::roles::Role::{Developer, User};
use serde_json::json;
use wire::{
    console::{History, Staleness},
    environments::EnvironmentSearch,
    error::Code,
    managed_agents::{
        Deleted, Environment, EnvironmentList, EnvironmentTemplate, Items, SandboxProvider,
    },
    policy::{PolicyAnswer, PolicyQuestion},
    secrets::{SecretItem, SecretList, SecretValue},
};

use super::super::{
    bodies::{CreateEnvironment, UpdateEnvironment},
    describe::{Describe, Group::*, call, query},
    examples,
};

pub(super) fn calls() -> Vec<Describe> {
    [reference(), ours()].concat()
}

fn reference() -> Vec<Describe> {
    const ALL: &str = "/managed-agents/v1/environments";
    const ONE: &str = "/managed-agents/v1/environments/{environment_id}";
    vec![
        call("GET", "/managed-agents/v1/sandbox-providers", "managedAgentsListSandboxProviders", Catalog, User, "List sandbox providers")
            .text("The kinds of sandboxes of this deployment, the default first. An environment's provider never changes.")
            .json::<Items<SandboxProvider>>(200, "The providers.", examples::providers())
            .cached(),
        call("GET", "/managed-agents/v1/environment-templates", "managedAgentsListEnvironmentTemplates", Catalog, User, "List environment templates")
            .text("Starting points, by id. Each one's `definition` can be sent to *Create an environment* as it is.")
            .json::<Items<EnvironmentTemplate>>(200, "The templates.", examples::templates())
            .cached(),
        call("GET", ALL, "managedAgentsListEnvironments", Environments, User, "List environments")
            .text("All of the organization's, newest first, whole and unpaged; `null` where there are none. For pages and \
                   filters use `GET /groundwork/v1/environments`.")
            .json::<EnvironmentList>(200, "The environments.", json!({"environments": [examples::environment()]})),
        call("POST", ALL, "managedAgentsCreateEnvironment", Environments, Developer, "Create an environment")
            .text("Saves a definition; starts no compute. Without `network_policy` every host is blocked. With a setup \
                   script, a setup run must pass before sessions can start.")
            .keyed(false)
            .body::<CreateEnvironment>(examples::create())
            .json::<Environment>(200, "The saved environment.", examples::environment())
            .header("Idempotency-Replayed", "`true` when this is the answer to an earlier request with the same key."),
        call("GET", ONE, "managedAgentsGetEnvironment", Environments, User, "Get an environment")
            .json::<Environment>(200, "The environment.", examples::environment()),
        call("PATCH", ONE, "managedAgentsUpdateEnvironment", Environments, Developer, "Update an environment")
            .text("Changes what is sent and keeps the rest; sandboxes that run keep what they started with. A change of a field \
                   that setup rests upon (script, size, policy, variables, …) makes the verdict stale; changing it back makes \
                   it current again.")
            .keyed(false)
            .body::<UpdateEnvironment>(examples::update())
            .json::<Environment>(200, "The environment as it is now.", examples::environment())
            .header("Idempotency-Replayed", "`true` when this is the answer to an earlier request with the same key.")
            .errors(&[Code::RevisionConflict, Code::PreconditionFailed, Code::PreconditionRequired]),
        call("DELETE", ONE, "managedAgentsDeleteEnvironment", Environments, Developer, "Delete an environment")
            .text("Cannot be undone. Cancels its run in flight and deletes its sessions with their files. Again: `404`.")
            .json::<Deleted>(200, "It is gone.", json!({"deleted": true})),
    ]
}

fn ours() -> Vec<Describe> {
    vec![
        call("GET", "/groundwork/v1/environments", "searchEnvironments", Environments, User, "Search environments")
            .text("Page by page, newest first.")
            .parameter(query("query", json!({"type": "string"}), "Part of the name or the id, without case."))
            .parameter(query(
                "status",
                json!({"type": "string", "enum": ["not_applicable", "never", "running", "verified", "failed", "stale"]}),
                "The verdict's status, or `stale`: whatever it is, it is about another definition.",
            ))
            .parameter(query(
                "limit",
                json!({"type": "integer", "minimum": 1, "maximum": 200}),
                "Environments of a page; 50 unless given.",
            ))
            .parameter(query(
                "cursor",
                json!({"type": "string", "format": "uuid"}),
                "`next_cursor` of the page before.",
            ))
            .json::<EnvironmentSearch>(
                200,
                "Those that match; `next_cursor` is left out on the last page.",
                json!({"environments": [examples::environment()], "next_cursor": examples::ENVIRONMENT}),
            ),
        call("GET", "/groundwork/v1/environments/{environment_id}/staleness", "getEnvironmentStaleness", Environments, User, "What differs from what was verified")
            .text("Which fields make the verdict stale: the tested value, today's, who changed it, and when.")
            .json::<Staleness>(200, "The differences; none where the verdict is current.", examples::staleness()),
        call("GET", "/groundwork/v1/environments/{environment_id}/history", "getEnvironmentHistory", Environments, User, "Every saved definition")
            .text("Newest first, each with what it changed against the one before.")
            .json::<History>(200, "The saved definitions.", examples::saved()),
        call("GET", "/groundwork/v1/environments/{environment_id}/secrets", "listSecrets", Environments, User, "List secret variables")
            .text("Their names, by whom and when each was set. Values are never readable.")
            .json::<SecretList>(200, "The secrets.", json!({"secrets": [examples::secret()]})),
        call("GET", "/groundwork/v1/environments/{environment_id}/secrets/{name}", "getSecret", Environments, User, "Get a secret variable")
            .text("Its name, by whom and when it was set. The value is never readable.")
            .json::<SecretItem>(200, "The secret.", examples::secret()),
        call("PUT", "/groundwork/v1/environments/{environment_id}/secrets/{name}", "setSecret", Environments, Developer, "Set a secret variable")
            .text("Sets it or replaces its value. It reaches every process of the sandbox, and its value is masked in logs. Another \
                   value makes the verdict stale, setting back the value that was tested clears it. Names follow the rules of \
                   `env_vars`, and no name can be both.")
            .body::<SecretValue>(json!({"value": "correct-horse-battery"}))
            .json::<SecretItem>(200, "The secret, without its value.", examples::secret()),
        call("DELETE", "/groundwork/v1/environments/{environment_id}/secrets/{name}", "deleteSecret", Environments, Developer, "Remove a secret variable")
            .json::<Deleted>(200, "It is gone.", json!({"deleted": true})),
        call("POST", "/groundwork/v1/environments/{environment_id}/history/{revision}/restore", "restoreEnvironment", Environments, Developer, "Go back to a saved definition")
            .text("Saved as a new revision; provider, image and template keep their present value. What the deployment does not \
                   offer any more is refused.")
            .no_body()
            .json::<Environment>(200, "The environment as it is now.", examples::environment())
            .errors(&[Code::RevisionConflict]),
        call("POST", "/groundwork/v1/network-policy/test", "testNetworkPolicy", Environments, User, "Test a network policy")
            .text("Would these hosts be allowed, and by which rule? Asks either a policy that is sent, or the saved one of an \
                   environment. Nothing is saved, and no name is resolved. Private and link-local addresses stay out of reach \
                   whatever the policy says.")
            .body::<PolicyQuestion>(json!({"network_policy": examples::policy(), "hosts": ["api.example.com", "example.org"]}))
            .json::<PolicyAnswer>(200, "A verdict for each host, in the order asked.", json!({"verdicts": [
                {"host": "api.example.com", "allowed": true, "rule": 0, "host_glob": "*.example.com",
                 "reason": "Rule 1 (*.example.com) allows it."},
                {"host": "example.org", "allowed": false, "rule": null, "host_glob": null,
                 "reason": "No rule matches, and what no rule allows is blocked."},
            ]}))
            .errors(&[Code::NotFound]),
    ]
}
