//! What was covered of the contract, and why the rest was not.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::Write,
};

use crate::{
    document::{Contract, Pair},
    support::Answer,
};

/// Documented answers that this product never gives: operation (`*`: any), status, code, and why.
const NEVER: [(&str, u16, &str, &str); 14] = [
    (
        "*",
        502,
        "bad_gateway",
        "nothing behind the server is asked over HTTP",
    ),
    (
        "*",
        504,
        "gateway_timeout",
        "no call waits for another service; what is held ends after 5 s",
    ),
    (
        "*",
        503,
        "managed_agents_unavailable",
        "one program: what is not ready is service_unavailable",
    ),
    (
        "*",
        503,
        "idempotency_unavailable",
        "receipts are in the one database: service_unavailable",
    ),
    (
        "*",
        503,
        "compute_offerings_unavailable",
        "what machines offer is configuration",
    ),
    (
        "*",
        503,
        "compute_offerings_unconfigured",
        "what machines offer always has a default",
    ),
    (
        "*",
        503,
        "setup_run_admission_unavailable",
        "admission is part of the call",
    ),
    (
        "*",
        403,
        "setup_run_not_admitted",
        "admission knows no further right than the role",
    ),
    (
        "ListSandboxProviders",
        404,
        "not_found",
        "the path names nothing that could be missing",
    ),
    (
        "ListEnvironmentTemplates",
        404,
        "not_found",
        "the path names nothing that could be missing",
    ),
    (
        "ListEnvironments",
        404,
        "not_found",
        "the path names nothing that could be missing",
    ),
    (
        "CreateEnvironment",
        404,
        "not_found",
        "the path names nothing that could be missing",
    ),
    (
        "CreateEnvironment",
        422,
        "sandbox_provider_disabled",
        "one that is not listed is invalid_request",
    ),
    (
        "UpdateEnvironment",
        422,
        "sandbox_provider_disabled",
        "the provider never changes",
    ),
];

/// Answers that were seen, and what was wrong with them.
#[derive(Default)]
pub struct Report {
    seen: BTreeMap<Pair, u32>,
    wrong: Vec<String>,
    validated: u32,
}

impl Report {
    /// Checks an answer, and that it has this status and code (empty for a success).
    pub fn expect(
        &mut self,
        contract: &Contract,
        name: &'static str,
        (status, code): (u16, &str),
        answer: &Answer,
    ) {
        self.validated += 1;
        match contract.check(name, answer) {
            Ok(pair) if pair.1 == status && pair.2 == code => {
                *self.seen.entry(pair).or_default() += 1;
            }
            Ok(_) => self
                .wrong
                .push(format!("{name}: {status} {code} was due: {answer:#?}")),
            Err(wrong) => self
                .wrong
                .push(format!("{name}: {}: {answer:#?}", wrong.join("; "))),
        }
    }

    /// Prints the counts; fails when an answer was wrong, or a documented one neither seen nor explained.
    pub fn close(self, contract: &Contract, database: &str) {
        let pairs = contract.pairs();
        let reason = |pair: &Pair| {
            NEVER.iter().find_map(|(name, status, code, why)| {
                ((*name == "*" || *name == pair.0) && *status == pair.1 && *code == pair.2)
                    .then_some(*why)
            })
        };
        let mut wrong = self.wrong;
        let mut reasons: BTreeMap<(u16, &str, &str), u32> = BTreeMap::new();
        for pair in &pairs {
            match (self.seen.contains_key(pair), reason(pair)) {
                (true, None) => {}
                (false, Some(why)) => {
                    *reasons.entry((pair.1, &pair.2, why)).or_default() += 1;
                }
                (true, Some(why)) => wrong.push(format!("{pair:?} was given, although {why}")),
                (false, None) => wrong.push(format!("{pair:?} was not provoked")),
            }
        }
        let statuses = |pairs: &mut dyn Iterator<Item = &Pair>| {
            pairs
                .map(|(name, status, _)| (*name, *status))
                .collect::<BTreeSet<_>>()
                .len()
        };
        let mut text = format!(
            "contract on {database}: {} operations, {} of {} documented operation and status pairs covered ({} of {} with \
             their error codes), {} answers validated\n",
            pairs
                .iter()
                .map(|pair| pair.0)
                .collect::<BTreeSet<_>>()
                .len(),
            statuses(&mut self.seen.keys()),
            statuses(&mut pairs.iter()),
            self.seen.len(),
            pairs.len(),
            self.validated,
        );
        for ((status, code, why), times) in reasons {
            text += &format!("  not given, {times} times: {status} {code}: {why}\n");
        }
        tell(&text);
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }
}

/// Prints past the test harness, which keeps what passing tests print.
pub fn tell(text: &str) {
    std::io::stderr().write_all(text.as_bytes()).unwrap();
}
