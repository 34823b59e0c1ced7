//! The doorbell between two processes on one PostgreSQL (here: two open databases).
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod common;

use std::time::Duration;

use common::{Bed, MIGRATE, rows};
use control::ports::{Doorbell, Store, Topic};
use tokio::sync::watch::Receiver;

const DEADLINE: Duration = Duration::from_secs(60);

async fn rings(bell: &mut Receiver<u64>) {
    tokio::time::timeout(DEADLINE, bell.changed())
        .await
        .expect("the bell must ring")
        .unwrap();
}

#[tokio::test]
async fn a_ring_is_heard_in_the_other_process_and_once_in_ones_own() {
    let here = Bed::postgres().await;
    let there = store::open(&here.url, MIGRATE).await.unwrap();
    for topic in [
        Topic::Run(rows::id(1)),
        Topic::Queue,
        Topic::Environments,
        Topic::Orders,
    ] {
        let mut heard = there.listen(topic);
        let mut own = here.db.listen(topic);
        let mut answer = here.db.listen(Topic::Run(rows::id(2)));
        here.db.ring(topic);
        rings(&mut own).await;
        rings(&mut heard).await;
        // Notifications arrive in order: once the answer is here, our own would be too.
        there.ring(Topic::Run(rows::id(2)));
        rings(&mut answer).await;
        assert!(!own.has_changed().unwrap(), "{topic:?} rang twice");
    }
}

#[tokio::test]
async fn a_change_is_heard_in_the_other_process() {
    let here = Bed::postgres().await;
    let there = store::open(&here.url, MIGRATE).await.unwrap();
    let mut bell = there.listen(Topic::Environments);
    let admin = rows::user(1, 1, domain::roles::Role::Admin);
    let _ = here
        .db
        .bootstrap(&rows::organization(1), &admin, rows::none())
        .await
        .unwrap();
    here.db
        .insert_environment(&rows::environment(1, 100), rows::none())
        .await
        .unwrap();
    rings(&mut bell).await;
    assert_eq!(there.environments(rows::id(1)).await.unwrap().len(), 1);
}

#[tokio::test]
async fn after_a_lost_connection_everything_rings_and_rings_are_heard_again() {
    let here = Bed::postgres().await;
    let there = store::open(&here.url, MIGRATE).await.unwrap();
    let mut run = here.db.listen(Topic::Run(rows::id(1)));
    let mut queue = here.db.listen(Topic::Queue);
    // Of all connections to this database, the listening, ringing and pooled ones.
    here.raw(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
         WHERE datname = current_database() AND pid <> pg_backend_pid()",
    )
    .await;
    rings(&mut run).await;
    rings(&mut queue).await;
    let mut heard = there.listen(Topic::Orders);
    heard.mark_unchanged();
    here.db.ring(Topic::Orders);
    rings(&mut heard).await;
    here.db.ping().await.unwrap();
    there.ping().await.unwrap();
}
