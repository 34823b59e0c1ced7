//! Many clients at once on the same and on different environments; what they saw is recorded, and the rules are checked
//! against the record afterwards. `GROUNDWORK_LOAD_SECONDS` sets for how long (15 unless set; `make test-load`: 120).

use std::{
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use domain::setup_run::Phase;
use http::Method;
use rand::{Rng, SeedableRng, rngs::StdRng, seq::IndexedRandom};
use serde_json::{Value, json};
use server::http::limits::Rate;
use testkit::TestWorker;
use wire::worker::{Gateway, Order, RunOutcome};

use crate::{
    drive::TREE,
    live::{Kind, Live, Wire},
    load_rules::{self, Deed, What},
    report::tell,
    support::Setting,
};

const CLIENTS: u64 = 64;
/// Environments that all clients fight for; the second half may be deleted.
const SHARED: usize = 8;

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn sixty_four_clients_break_no_rule_on_sqlite() {
    load(Kind::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn sixty_four_clients_break_no_rule_on_postgresql() {
    load(Kind::Postgres).await;
}

async fn load(kind: Kind) {
    let seconds = std::env::var("GROUNDWORK_LOAD_SECONDS").map_or(15, |text| {
        text.parse()
            .expect("GROUNDWORK_LOAD_SECONDS: a number of seconds")
    });
    // The test's clock stands still, so that buckets are not filled again.
    let plenty = Rate::new(100_000, 1_000_000_000);
    let live = Live::start(Setting {
        options: kind.options(),
        key_rate: plenty,
        address_rate: plenty,
        ..Setting::default()
    })
    .await;
    let mut shared = Vec::new();
    for n in 0..SHARED {
        let id = live
            .doors
            .app
            .environment(&format!("shared {n}"), "true\n")
            .await;
        shared.push(id.to_string());
    }
    let record = Arc::new(Mutex::new(Vec::new()));
    let workers: Vec<_> = futures::future::join_all((0..2).map(|n| {
        let name = format!("played {n}");
        let app = &live.doors.app;
        async move { app.worker(&name).await }
    }))
    .await
    .into_iter()
    .map(|worker| tokio::spawn(drive_runs(worker)))
    .collect();
    let begun = Instant::now();
    let until = begun + Duration::from_secs(seconds);
    let clients: Vec<_> = (0..CLIENTS)
        .map(|n| {
            let client = Client {
                wire: live.wire.clone(),
                key: live.doors.developer.clone(),
                number: n,
                chance: StdRng::seed_from_u64(n),
                shared: shared.clone(),
                own: Vec::new(),
                runs: Vec::new(),
                record: Vec::new(),
                begun,
            };
            let record = Arc::clone(&record);
            tokio::spawn(async move {
                let deeds = client.go_on(until).await;
                record.lock().unwrap().extend(deeds);
            })
        })
        .collect();
    for client in clients {
        client.await.unwrap();
    }
    for worker in &workers {
        worker.abort();
    }
    let mut deeds = std::mem::take(&mut *record.lock().unwrap());
    deeds.sort_by_key(|deed| deed.began);
    let wrong = load_rules::check(&live.doors.app, &shared, &deeds).await;
    let refused = deeds.iter().filter(|deed| deed.status >= 400).count();
    tell(&format!(
        "load on {kind:?}: {CLIENTS} clients, {seconds} s, {} requests ({:.0} a second), {refused} of them refused by a rule; \
         {} changes, {} runs and {} deletions of shared environments; no rule broken\n",
        deeds.len(),
        deeds.len() as f64 / seconds as f64,
        load_rules::count(&deeds, 200, |what| matches!(what, What::Change { .. })),
        load_rules::count(&deeds, 202, |what| matches!(what, What::Start)),
        load_rules::count(&deeds, 200, |what| matches!(what, What::Delete)),
    ));
    assert!(
        wrong.is_empty(),
        "{} rules broken:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

/// A worker that takes whatever run waits and ends it one way or another.
async fn drive_runs(worker: TestWorker) {
    let mut n = 0_u32;
    loop {
        let claimed = worker
            .gateway
            .claim(worker.id, Duration::from_secs(3_600))
            .await;
        let Ok(Some(work)) = claimed else { continue };
        // Whoever loses a race with a deletion or a cancellation is fenced, which is no fault.
        let _ = worker.reach(work.held, Phase::Setup).await;
        let _ = worker.write(work.held, work.next_seq, &["a line"]).await;
        let asked = worker.gateway.heartbeat(worker.id, &[work.held]).await;
        let stop =
            asked.is_ok_and(|all| all.iter().any(|one| !matches!(one.order, Order::Continue)));
        let outcome: RunOutcome = if stop {
            TestWorker::cancelled()
        } else if n.is_multiple_of(3) {
            TestWorker::failed()
        } else {
            for phase in [Phase::Profile, Phase::Commit, Phase::Cleanup] {
                let _ = worker.reach(work.held, phase).await;
            }
            TestWorker::passed()
        };
        let _ = worker.gateway.finish(work.held, outcome).await;
        n = n.wrapping_add(1);
    }
}

struct Client {
    wire: Wire,
    key: String,
    number: u64,
    chance: StdRng,
    shared: Vec<String>,
    own: Vec<String>,
    runs: Vec<(String, String)>,
    record: Vec<Deed>,
    begun: Instant,
}

impl Client {
    async fn go_on(mut self, until: Instant) -> Vec<Deed> {
        for n in 0_u64.. {
            if Instant::now() >= until {
                break;
            }
            let mark = format!("{}-{n}", self.number);
            match self.chance.random_range(0..100) {
                0..10 => self.create(&mark).await,
                10..45 => self.change(&mark).await,
                45..60 => self.start(&mark).await,
                60..70 => self.cancel().await,
                70..80 => self.look_at_a_run().await,
                80..95 => self.read().await,
                _ => self.delete().await,
            }
        }
        self.record
    }

    /// Sends it and writes down what came.
    async fn deed(
        &mut self,
        what: What,
        environment: &str,
        (method, path): (Method, String),
        body: Option<&Value>,
    ) -> Value {
        let mut call = self
            .wire
            .call(method, &format!("{TREE}{path}"))
            .bearer(&self.key);
        if matches!(what, What::Start) {
            call = call.keyed(&format!("{}-{}", self.number, self.record.len()));
        }
        if let Some(body) = body {
            call = call.json(body);
        }
        let began = self.begun.elapsed();
        let answer = call.send().await;
        let value = serde_json::from_str(&answer.text).unwrap_or(Value::Null);
        self.record.push(Deed {
            what,
            environment: environment.to_owned(),
            began,
            ended: self.begun.elapsed(),
            status: answer.status.as_u16(),
            answer: value.clone(),
        });
        value
    }

    fn some(&mut self) -> String {
        let own = !self.own.is_empty() && self.chance.random_bool(0.2);
        let from = if own { &self.own } else { &self.shared };
        from.choose(&mut self.chance).unwrap().clone()
    }

    async fn create(&mut self, mark: &str) {
        let body = json!({"name": mark, "setup": {"script": "true\n"}});
        let made = self
            .deed(
                What::Create,
                "",
                (Method::POST, "/environments".to_owned()),
                Some(&body),
            )
            .await;
        if let Some(id) = made["environment_id"].as_str() {
            self.own.push(id.to_owned());
        }
    }

    /// A change that can be told from every other by its description.
    async fn change(&mut self, mark: &str) {
        let id = self.some();
        let path = format!("/environments/{id}");
        let mut change = json!({"description": mark});
        match self.chance.random_range(0..4) {
            0 => {
                change["resources"] =
                    json!({"cpu_milli": 1000 * self.chance.random_range(1..5), "memory_mib": 4096})
            }
            1 => {
                // As a careful client does it: read, then say what was read.
                let saved = self
                    .deed(What::Read, &id, (Method::GET, path.clone()), None)
                    .await;
                if saved["environment_id"].is_null() {
                    return;
                }
                let host = format!("h{}.example", self.chance.random_range(0..3));
                change["network_policy"] = json!({"version": "v1", "rules": [
                    {"match": {"host_glob": host}, "action": {"type": "allow"}}]});
                change["expected_access"] = json!({"network_policy": saved["network_policy"], "privileged": saved["privileged"]});
            }
            2 => change["env_vars"] = json!({"A": mark}),
            _ => change["metadata"] = json!({"by": self.number}),
        }
        let what = What::Change {
            change: change.clone(),
        };
        self.deed(what, &id, (Method::PATCH, path), Some(&change))
            .await;
    }

    async fn start(&mut self, _: &str) {
        let id = self.some();
        let path = format!("/environments/{id}/setup-runs");
        let run = self
            .deed(What::Start, &id, (Method::POST, path), None)
            .await;
        let run_id = match run["details"]["setup_run_id"].as_str() {
            Some(in_flight) => Some(in_flight),
            None => run["setup_run_id"].as_str(),
        };
        if let Some(run_id) = run_id {
            self.runs.push((id, run_id.to_owned()));
        }
    }

    async fn cancel(&mut self) {
        let Some((id, run)) = self.runs.choose(&mut self.chance).cloned() else {
            return;
        };
        let path = format!("/environments/{id}/setup-runs/{run}/cancel");
        self.deed(What::Cancel { run }, &id, (Method::POST, path), None)
            .await;
    }

    async fn look_at_a_run(&mut self) {
        // The newest ones are those that still move.
        let newest = self.runs.len().saturating_sub(3);
        let Some((id, run)) = self.runs[newest..].choose(&mut self.chance).cloned() else {
            return;
        };
        let path = format!("/environments/{id}/setup-runs/{run}");
        self.deed(What::Look { run }, &id, (Method::GET, path), None)
            .await;
    }

    async fn read(&mut self) {
        let id = self.some();
        let path = format!("/environments/{id}");
        self.deed(What::Read, &id, (Method::GET, path), None).await;
    }

    async fn delete(&mut self) {
        let id = if self.own.len() > 1 && self.chance.random_bool(0.98) {
            self.own
                .swap_remove(self.chance.random_range(0..self.own.len()))
        } else if self.chance.random_bool(0.1) {
            self.shared[self.shared.len() / 2..]
                .choose(&mut self.chance)
                .unwrap()
                .clone()
        } else {
            return;
        };
        let path = format!("/environments/{id}");
        self.deed(What::Delete, &id, (Method::DELETE, path), None)
            .await;
    }
}
