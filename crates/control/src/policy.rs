//! Asking a network policy: would a sandbox reach these hosts, and by which rule (spec 2-api).

use std::net::IpAddr;

use domain::{
    issues::Issues,
    network_policy::{CompiledPolicy, NetworkPolicy, is_refused_address, normalise_host},
    roles::Action,
};
use wire::policy::{PolicyAnswer, PolicyQuestion, PolicyVerdict};

use crate::{Control, Error, OpCtx, Result};

/// Most hosts of a question.
const HOSTS_MAX: usize = 100;

impl Control {
    /// A verdict for each host, of a policy that is sent or of an environment's saved one.
    pub async fn test_network_policy(
        &self,
        ctx: &OpCtx,
        question: &PolicyQuestion,
    ) -> Result<PolicyAnswer> {
        ctx.require(Action::ReadEnvironments)?;
        let policy = match (&question.network_policy, question.environment_id) {
            (Some(policy), None) => NetworkPolicy::from_json(policy, "network_policy")?,
            (None, Some(id)) => {
                self.load_environment(ctx, id, Action::ReadEnvironments)
                    .await?
                    .definition
                    .network_policy
            }
            _ => {
                return Err(Error::invalid_field(
                    "network_policy",
                    "Send either network_policy or environment_id.",
                ));
            }
        };
        let hosts = &question.hosts;
        if hosts.is_empty() || hosts.len() > HOSTS_MAX {
            return Err(Error::invalid_field(
                "hosts",
                format!("Send 1 to {HOSTS_MAX} hosts, not {}.", hosts.len()),
            ));
        }
        let mut issues = Issues::new();
        for (index, host) in hosts.iter().enumerate() {
            if normalise_host(host).is_none() {
                issues.add(
                    format!("hosts[{index}]"),
                    "Must be a host name or an address, without scheme, port or path.",
                );
            }
        }
        issues.into_result(())?;
        let compiled = CompiledPolicy::new(&policy);
        let verdicts = hosts
            .iter()
            .map(|host| verdict(&policy, &compiled, host))
            .collect();
        Ok(PolicyAnswer { verdicts })
    }
}

fn verdict(policy: &NetworkPolicy, compiled: &CompiledPolicy, host: &str) -> PolicyVerdict {
    let address = normalise_host(host).and_then(|host| host.parse::<IpAddr>().ok());
    if address.is_some_and(|address| is_refused_address(address, &[])) {
        return PolicyVerdict {
            host: host.to_owned(),
            allowed: false,
            rule: None,
            host_glob: None,
            reason: "Private, link-local and metadata addresses are out of reach whatever the policy says, unless the \
                     deployment's configuration opens one."
                .to_owned(),
        };
    }
    let found = compiled.verdict(host);
    let glob = match (policy, found.rule) {
        (NetworkPolicy::Rules(rules), Some(index)) => {
            rules.get(index).map(|rule| rule.host_glob.clone())
        }
        _ => None,
    };
    let reason = match (&glob, found.rule, found.allowed) {
        (Some(glob), Some(index), true) => format!("Rule {} ({glob}) allows it.", index + 1),
        (Some(glob), Some(index), false) => format!("Rule {} ({glob}) blocks it.", index + 1),
        (_, _, true) => "The policy is unrestricted.".to_owned(),
        (_, _, false) => "No rule matches, and what no rule allows is blocked.".to_owned(),
    };
    PolicyVerdict {
        host: host.to_owned(),
        allowed: found.allowed,
        rule: found.rule,
        host_glob: glob,
        reason,
    }
}
