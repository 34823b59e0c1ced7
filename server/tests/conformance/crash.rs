//! The real program, killed at random moments while keyed requests are under way (spec 2-api, *Idempotency-Key*): neither
//! a receipt is lost nor an effect doubled, and what was answered once is answered again.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use http::Method;
use serde_json::{Value, json};

use crate::{drive::TREE, live::Wire, place::Place, postgres, report::tell, support::Answer};

/// Places that are killed side by side, and clients of each.
const PLACES: u64 = 4;
const CLIENTS: u64 = 6;

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn killed_two_hundred_times_no_receipt_is_lost_and_no_effect_doubled_on_sqlite() {
    everywhere("SQLite", 200 / PLACES, || None).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn killed_again_and_again_no_receipt_is_lost_and_no_effect_doubled_on_postgresql() {
    everywhere("PostgreSQL", 10, || Some(postgres::fresh_database())).await;
}

async fn everywhere(name: &str, kills: u64, database: fn() -> Option<String>) {
    let places: Vec<_> = (0..PLACES)
        .map(|seed| {
            let place = Place::new(database());
            tokio::spawn(async move { place.story(kills, seed).await })
        })
        .collect();
    let mut total = Counts::default();
    for place in places {
        total.add(&place.await.unwrap());
    }
    tell(&format!(
        "idempotency on {name}: killed {} times, {} keyed requests: {} answered, {} took effect without an answer, {} were \
         claimed without an effect, {} never came; none lost, none doubled\n",
        total.kills, total.keys, total.answered, total.unanswered, total.claimed, total.absent,
    ));
    // Otherwise the moments were not where they should be, and the test would say nothing.
    assert!(total.unanswered + total.claimed > 0, "{total:?}");
    assert!(total.answered > total.kills / 4, "{total:?}");
}

#[derive(Default, Debug)]
struct Counts {
    kills: u64,
    keys: u64,
    answered: u64,
    unanswered: u64,
    claimed: u64,
    absent: u64,
}

impl Counts {
    fn add(&mut self, other: &Self) {
        self.kills += other.kills;
        self.keys += other.keys;
        self.answered += other.answered;
        self.unanswered += other.unanswered;
        self.claimed += other.claimed;
        self.absent += other.absent;
    }
}

/// A keyed request.
#[derive(Clone)]
struct Keyed {
    path: String,
    body: Option<Value>,
    /// The first answer, if it came.
    answer: Option<String>,
}

type Sent = Arc<Mutex<BTreeMap<String, Keyed>>>;

impl Place {
    async fn story(self, kills: u64, seed: u64) -> Counts {
        let key = self.admin();
        let sent = Sent::default();
        // Environments that two of the clients test.
        let mut tested = Vec::new();
        {
            let running = self.start();
            for client in 0..2 {
                let made = running
                    .wire
                    .call(Method::POST, &format!("{TREE}/environments"))
                    .bearer(&key)
                    .json(
                        &json!({"name": format!("tested {client}"), "setup": {"script": "true\n"}}),
                    );
                let made = made.send().await.ok();
                tested.push(made["environment_id"].as_str().unwrap().to_owned());
            }
            running.kill();
        }
        let mut chance = Chance(seed + 1);
        for life in 0..kills {
            let running = self.start();
            let clients: Vec<_> = (0..CLIENTS)
                .map(|client| {
                    let client = Client {
                        wire: running.wire.clone(),
                        key: key.clone(),
                        sent: Arc::clone(&sent),
                        name: format!("{life}-{client}"),
                        tested: tested.get(client as usize).cloned(),
                    };
                    tokio::spawn(client.go_on())
                })
                .collect();
            // The moment is what the test is about: anywhere in the life of some requests. A machine that is busy with
            // other things is given until something was answered, in two lives of three.
            if chance.below(3) > 0 {
                let deadline = Instant::now() + Duration::from_secs(20);
                let answered = || {
                    let sent = sent.lock().unwrap();
                    let mut own = sent
                        .iter()
                        .filter(|(name, _)| name.starts_with(&format!("{life}-")));
                    own.any(|(_, request)| request.answer.is_some())
                };
                while !answered() && Instant::now() < deadline {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
            }
            tokio::time::sleep(Duration::from_micros(chance.below(40_000))).await;
            running.kill();
            for client in clients {
                client.await.unwrap();
            }
        }
        let sent = std::mem::take(&mut *sent.lock().unwrap());
        self.account(&sent, &key, &tested, kills).await
    }

    /// What the database says of every request, and what the program answers to each once more.
    async fn account(
        &self,
        sent: &BTreeMap<String, Keyed>,
        key: &str,
        tested: &[String],
        kills: u64,
    ) -> Counts {
        let mut counts = Counts {
            kills,
            keys: sent.len() as u64,
            ..Counts::default()
        };
        let receipts: BTreeMap<String, Value> = self
            .rows("SELECT idempotency_key, status, body FROM receipts")
            .into_iter()
            .map(|row| (row["idempotency_key"].as_str().unwrap().to_owned(), row))
            .collect();
        let effects = |rows: Vec<Value>| -> Vec<String> {
            rows.iter()
                .map(|row| row["id"].as_str().unwrap().to_owned())
                .collect()
        };
        let environments = effects(self.rows("SELECT environment_id AS id FROM environments"));
        let runs = effects(self.rows("SELECT setup_run_id AS id FROM setup_runs"));
        let mut completed = [0, 0];
        for (name, request) in sent {
            let body = receipts.get(name).map(|row| row["body"].as_str());
            match (&request.answer, body) {
                (Some(answer), Some(Some(stored))) => {
                    assert_eq!(answer, stored, "{name}: the receipt is the answer");
                    counts.answered += 1;
                }
                (Some(_), _) => panic!("{name}: answered, and its receipt is lost"),
                (None, Some(Some(_))) => counts.unanswered += 1,
                (None, Some(None)) => counts.claimed += 1,
                (None, None) => counts.absent += 1,
            }
            if let Some(Some(stored)) = body {
                let stored: Value = serde_json::from_str(stored).unwrap();
                let (kind, id, all) = match request.body {
                    Some(_) => (0, &stored["environment_id"], &environments),
                    None => (1, &stored["setup_run_id"], &runs),
                };
                let id = id.as_str().unwrap();
                assert!(
                    all.iter().any(|found| found == id),
                    "{name}: no effect for a receipt"
                );
                completed[kind] += 1;
            }
        }
        // With the two that were made without a key. As many as receipts: none without one, none twice.
        assert_eq!(
            environments.len(),
            completed[0] + 2,
            "environments and receipts"
        );
        assert_eq!(runs.len(), completed[1], "runs and receipts");

        self.age_claims();
        let running = self.start();
        for environment in tested {
            Client::cancel_active(&running.wire, key, environment).await;
        }
        for (name, request) in sent {
            let again = Client::send(&running.wire, key, name, request)
                .await
                .unwrap();
            assert!(again.status.is_success(), "{name}: {again:#?}");
            if let Some(first) = &request.answer {
                assert_eq!(&again.text, first, "{name}");
                assert_eq!(again.header("idempotency-replayed"), Some("true"));
            }
            if request.body.is_none() {
                // So that the next one finds the environment free.
                Client::cancel(&running.wire, key, &request.path, &again.json()).await;
            }
        }
        running.kill();
        let with = |body: bool| sent.values().filter(|r| r.body.is_some() == body).count();
        let environments = self.rows("SELECT environment_id AS id FROM environments");
        assert_eq!(
            environments.len(),
            with(true) + 2,
            "every request had its effect, once"
        );
        let runs = self.rows("SELECT setup_run_id AS id FROM setup_runs");
        assert_eq!(
            runs.len(),
            with(false),
            "every request had its effect, once"
        );
        counts
    }
}

/// Sends keyed requests until nobody answers.
struct Client {
    wire: Wire,
    key: String,
    sent: Sent,
    name: String,
    /// The environment that it tests; it creates environments otherwise.
    tested: Option<String>,
}

impl Client {
    async fn go_on(self) {
        let begun = Instant::now();
        if let Some(environment) = &self.tested {
            // What the life before left in flight.
            Self::cancel_active(&self.wire, &self.key, environment).await;
        }
        for n in 0.. {
            assert!(
                begun.elapsed() < Duration::from_secs(60),
                "it was not killed"
            );
            let name = format!("{}-{n}", self.name);
            let request = match &self.tested {
                Some(environment) => Keyed {
                    path: format!("{TREE}/environments/{environment}/setup-runs"),
                    body: None,
                    answer: None,
                },
                None => Keyed {
                    path: format!("{TREE}/environments"),
                    body: Some(json!({"name": name, "setup": {"script": "true\n"}})),
                    answer: None,
                },
            };
            self.sent
                .lock()
                .unwrap()
                .insert(name.clone(), request.clone());
            let Some(answer) = Self::send(&self.wire, &self.key, &name, &request).await else {
                return;
            };
            assert!(answer.status.is_success(), "{answer:#?}");
            let run = request.body.is_none().then(|| answer.json());
            self.sent.lock().unwrap().get_mut(&name).unwrap().answer = Some(answer.text);
            if let Some(run) = run {
                Self::cancel(&self.wire, &self.key, &request.path, &run).await;
            }
        }
    }

    async fn send(wire: &Wire, key: &str, name: &str, request: &Keyed) -> Option<Answer> {
        let mut call = wire
            .call(Method::POST, &request.path)
            .bearer(key)
            .keyed(name);
        if let Some(body) = &request.body {
            call = call.json(body);
        }
        call.attempt().await
    }

    /// Cancels the run in flight, if there is one and anybody still answers.
    async fn cancel_active(wire: &Wire, key: &str, environment: &str) {
        let at = format!("{TREE}/environments/{environment}");
        if let Some(found) = wire.call(Method::GET, &at).bearer(key).attempt().await {
            let active = found.ok()["setup_verification"]["active_setup_run_id"].clone();
            if active.is_string() {
                let run = json!({"setup_run_id": active});
                Self::cancel(wire, key, &format!("{at}/setup-runs"), &run).await;
            }
        }
    }

    /// Cancels a run, if anybody still answers; one that has ended is as good.
    async fn cancel(wire: &Wire, key: &str, path: &str, run: &Value) {
        let at = format!("{path}/{}/cancel", run["setup_run_id"].as_str().unwrap());
        if let Some(answer) = wire.call(Method::POST, &at).bearer(key).attempt().await {
            assert!(matches!(answer.status.as_u16(), 200 | 409), "{answer:#?}");
        }
    }
}

/// A small generator, so that a run can be repeated (as far as two processes can).
struct Chance(u64);

impl Chance {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) % limit
    }
}
