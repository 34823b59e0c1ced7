//! The rules that must hold however many clients there are, checked against what each saw and when.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    time::Duration,
};

use control::ports::Store as _;
use domain::{environment::Definition, ids::EnvironmentId};
use serde_json::Value;
use testkit::TestApp;

/// What a client did.
#[derive(Debug, Clone)]
pub enum What {
    Create,
    Read,
    Change { change: Value },
    Delete,
    Start,
    Cancel { run: String },
    Look { run: String },
}

/// One request: between `began` and `ended` the server did what it did.
#[derive(Debug)]
pub struct Deed {
    pub what: What,
    pub environment: String,
    pub began: Duration,
    pub ended: Duration,
    pub status: u16,
    pub answer: Value,
}

/// How many with this status.
pub fn count(deeds: &[Deed], status: u16, which: fn(&What) -> bool) -> usize {
    deeds
        .iter()
        .filter(|deed| deed.status == status && which(&deed.what))
        .count()
}

/// Everything that broke a rule.
pub async fn check(app: &TestApp, shared: &[String], deeds: &[Deed]) -> Vec<String> {
    let mut wrong = Vec::new();
    answers(deeds, &mut wrong);
    deletions(deeds, &mut wrong);
    runs(deeds, &mut wrong);
    for id in shared {
        history(app, id, deeds, &mut wrong).await;
        at_rest(app, id, &mut wrong).await;
    }
    // One of each kind is enough to begin with.
    wrong.sort();
    wrong.dedup_by_key(|text| text.chars().take(60).collect::<String>());
    wrong
}

/// Each answer is one that its call may give.
fn answers(deeds: &[Deed], wrong: &mut Vec<String>) {
    for deed in deeds {
        let code = deed.answer["code"].as_str().unwrap_or_default();
        let fine = match (&deed.what, deed.status) {
            (_, 404) => !matches!(deed.what, What::Create),
            (What::Start, 202) => true,
            (What::Start, 409) => code == "setup_run_in_progress",
            (What::Start, 429) => code == "setup_run_limit",
            (What::Cancel { .. }, 409) => code == "setup_run_finished",
            (What::Change { change }, 409) => {
                code == "revision_conflict"
                    && (has(change, "resources") || has(change, "network_policy"))
            }
            (What::Change { change }, 412) => has(change, "expected_access"),
            (what, 200) => !matches!(what, What::Start),
            _ => false,
        };
        if !fine {
            wrong.push(format!("an answer that may not come: {deed:?}"));
        }
    }
}

fn has(change: &Value, field: &str) -> bool {
    change.get(field).is_some()
}

/// One deletion succeeds, and after it nothing finds the environment.
fn deletions(deeds: &[Deed], wrong: &mut Vec<String>) {
    let mut deleted: HashMap<&str, &Deed> = HashMap::new();
    for deed in deeds
        .iter()
        .filter(|d| matches!(d.what, What::Delete) && d.status == 200)
    {
        if deleted.insert(&deed.environment, deed).is_some() {
            wrong.push(format!("deleted twice: {}", deed.environment));
        }
    }
    for deed in deeds {
        if let Some(deletion) = deleted.get(deed.environment.as_str())
            && deed.began > deletion.ended
            && deed.status != 404
        {
            wrong.push(format!("found after its deletion: {deed:?}"));
        }
    }
}

const TERMINAL: [&str; 3] = ["succeeded", "failed", "cancelled"];

fn rank(status: &str) -> usize {
    ["queued", "provisioning", "running"]
        .iter()
        .position(|known| *known == status)
        .unwrap_or(3)
}

/// States only go forward, ends stay, and one run at a time is in flight for an environment.
fn runs(deeds: &[Deed], wrong: &mut Vec<String>) {
    let mut seen: BTreeMap<&str, Vec<(&Deed, &str)>> = BTreeMap::new();
    for deed in deeds {
        let run = match &deed.what {
            What::Start if deed.status == 202 => deed.answer["setup_run_id"].as_str(),
            What::Cancel { run } | What::Look { run } if deed.status == 200 => Some(run.as_str()),
            _ => None,
        };
        if let (Some(run), Some(status)) = (run, deed.answer["status"].as_str()) {
            seen.entry(run).or_default().push((deed, status));
        }
    }
    for (run, looks) in &seen {
        for (n, (earlier, before)) in looks.iter().enumerate() {
            for (later, after) in looks[n..]
                .iter()
                .filter(|(later, _)| later.began > earlier.ended)
            {
                let back = rank(after) < rank(before);
                let changed = TERMINAL.contains(before) && before != after;
                if back || changed {
                    wrong.push(format!(
                        "{run} went from {before} to {after} ({:?})",
                        later.what
                    ));
                }
            }
        }
    }
    // In flight for certain: from the end of its start to the beginning of the last look that found it so.
    let mut flights: HashMap<&str, Vec<(&str, Duration, Duration)>> = HashMap::new();
    for (run, looks) in &seen {
        let Some((start, _)) = looks
            .iter()
            .find(|(deed, _)| matches!(deed.what, What::Start))
        else {
            continue;
        };
        let last = looks
            .iter()
            .filter(|(deed, status)| matches!(deed.what, What::Look { .. }) && rank(status) < 3)
            .map(|(deed, _)| deed.began)
            .max();
        if let Some(last) = last {
            let flight = (*run, start.ended, last);
            flights.entry(&start.environment).or_default().push(flight);
        }
    }
    for deed in deeds
        .iter()
        .filter(|d| matches!(d.what, What::Start) && d.status == 202)
    {
        let own = deed.answer["setup_run_id"].as_str().unwrap_or_default();
        for (run, from, to) in flights.get(deed.environment.as_str()).into_iter().flatten() {
            if *run != own && deed.began > *from && deed.ended < *to {
                wrong.push(format!("{own} was started while {run} was in flight"));
            }
        }
    }
}

/// Every accepted change is one revision, each revision is the one before with that change, and what a change said it had
/// read was what it changed.
async fn history(app: &TestApp, id: &str, deeds: &[Deed], wrong: &mut Vec<String>) {
    let id_of: EnvironmentId = id.parse().unwrap();
    let mut revisions = app.store.revisions(id_of).await.unwrap();
    revisions.sort_by_key(|revision| revision.revision);
    let mut accepted: HashMap<&str, &Value> = HashMap::new();
    for deed in deeds
        .iter()
        .filter(|d| d.environment == id && d.status == 200)
    {
        if let What::Change { change } = &deed.what {
            accepted.insert(change["description"].as_str().unwrap(), change);
        }
    }
    if revisions.len() != accepted.len() + 1 {
        wrong.push(format!(
            "{id}: {} changes were accepted, and there are {} revisions",
            accepted.len(),
            revisions.len()
        ));
    }
    let mut met = HashSet::new();
    for pair in revisions.windows(2) {
        let [before, after] = pair else { continue };
        if after.revision != before.revision + 1 {
            wrong.push(format!(
                "{id}: revision {} after {}",
                after.revision, before.revision
            ));
        }
        let (before, after) = (fields(&before.definition), fields(&after.definition));
        let mark = after["description"].as_str().unwrap_or_default().to_owned();
        let Some(change) = accepted.get(mark.as_str()) else {
            wrong.push(format!("{id}: nobody's change {mark:?} is a revision"));
            continue;
        };
        met.insert(mark.clone());
        for (field, value) in after.as_object().unwrap() {
            let changed = change.get(field).is_some();
            if !changed && before[field] != *value {
                wrong.push(format!(
                    "{id}: {mark} changed {field}, which it did not name"
                ));
            }
            if changed
                && matches!(field.as_str(), "env_vars" | "metadata")
                && change[field] != *value
            {
                wrong.push(format!("{id}: {mark} is not what was saved for {field}"));
            }
        }
        if let Some(expected) = change.get("expected_access")
            && expected["network_policy"] != before["network_policy"]
        {
            wrong.push(format!(
                "{id}: {mark} was let through with an access that was not the saved one"
            ));
        }
    }
    for mark in accepted.keys().filter(|mark| !met.contains(**mark)) {
        wrong.push(format!("{id}: the change {mark} is lost"));
    }
}

/// As the API spells them.
fn fields(definition: &Definition) -> Value {
    let mut fields = serde_json::to_value(definition).unwrap();
    fields["network_policy"] = definition.network_policy.to_json();
    fields
}

/// What is saved at the end fits together.
async fn at_rest(app: &TestApp, id: &str, wrong: &mut Vec<String>) {
    let id_of: EnvironmentId = id.parse().unwrap();
    let runs = app.store.runs(id_of, 100_000).await.unwrap();
    let in_flight: Vec<_> = runs
        .iter()
        .filter(|run| !run.state.status.is_terminal())
        .map(|run| run.setup_run_id)
        .collect();
    if in_flight.len() > 1 {
        wrong.push(format!("{id}: {in_flight:?} are all in flight"));
    }
    let saved = app
        .store
        .environment(app.organization, id_of)
        .await
        .unwrap();
    if let Some(saved) = saved {
        let active = saved.verification.active_setup_run_id;
        if active != in_flight.first().copied() {
            wrong.push(format!(
                "{id}: the verdict says that {active:?} is in flight, and {in_flight:?} is"
            ));
        }
    }
}
