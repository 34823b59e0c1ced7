//! Asking a network policy: would a sandbox reach these hosts, and by which rule (spec 2-api).

use std::net::IpAddr;

use domain::{
    issues::Issues,
    network_policy::{CompiledPolicy, NetworkPolicy, may_be_reached, normalise_host},
    roles::Action,
};
use wire::policy::{PolicyAnswer, PolicyQuestion, PolicyVerdict};

use crate::{Control, Error, OpCtx, Result};

/// Why an address is out of reach.
const OUT_OF_REACH: &str = "Private, link-local and metadata addresses and the deployment's own are out of reach \
                            whatever the policy says, unless its configuration opens a private network.";
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
            .map(|host| match self.out_of_reach(host) {
                true => PolicyVerdict {
                    host: host.to_owned(),
                    allowed: false,
                    rule: None,
                    host_glob: None,
                    reason: OUT_OF_REACH.to_owned(),
                },
                false => verdict(&policy, &compiled, host),
            })
            .collect();
        Ok(PolicyAnswer { verdicts })
    }

    /// Whether `host` is an address that no policy lets a sandbox reach in this deployment. What a name resolves to is
    /// known only to the machine that dials it, and so are the addresses of that machine's interfaces.
    fn out_of_reach(&self, host: &str) -> bool {
        let config = &self.0.config;
        normalise_host(host)
            .and_then(|host| host.parse::<IpAddr>().ok())
            .is_some_and(|address| {
                !may_be_reached(address, &config.open_networks, &config.own_addresses)
            })
    }
}

fn verdict(policy: &NetworkPolicy, compiled: &CompiledPolicy, host: &str) -> PolicyVerdict {
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
