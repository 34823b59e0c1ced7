//! The doorbell: content-free, coalescing, lossy. In one process it is a map of watch channels; with PostgreSQL the
//! topics also travel to the other processes (`pg_notify`), and everything rings after a lost connection.

use std::{
    collections::{HashMap, HashSet},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use control::ports::Topic;
use sqlx::{
    Connection,
    postgres::{PgConnectOptions, PgConnection, PgListener, PgPool},
};
use tokio::{
    sync::{Notify, watch},
    task::JoinHandle,
};

use crate::dialect;

/// How often a lost notification connection is tried again.
const RECONNECT_PACE: Duration = Duration::from_secs(1);
/// Topics that are listened to before the first tidying.
const TIDY_AT_LEAST: usize = 64;

/// Bells of this process, and the way to those of others.
#[derive(Default)]
pub(crate) struct Bells {
    topics: Mutex<Topics>,
    /// Topics to pass on to other processes; `None` when there are none.
    outbox: Option<Outbox>,
}

#[derive(Default)]
struct Topics {
    senders: HashMap<Topic, watch::Sender<u64>>,
    /// When the map has grown to this size, topics that nobody listens to any more are dropped.
    tidy_at: usize,
}

#[derive(Default)]
struct Outbox {
    topics: Mutex<HashSet<Topic>>,
    filled: Notify,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // The maps are whole between any two statements: a panic elsewhere does not spoil them.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Bells {
    /// Bells that also ring in other processes, once [`connect`] runs.
    pub(crate) fn shared() -> Self {
        Self {
            outbox: Some(Outbox::default()),
            ..Self::default()
        }
    }

    /// Wakes listeners here, and passes the topic on.
    pub(crate) fn ring(&self, topic: Topic) {
        self.ring_here(topic);
        if let Some(outbox) = &self.outbox {
            lock(&outbox.topics).insert(topic);
            outbox.filled.notify_one();
        }
    }

    fn ring_here(&self, topic: Topic) {
        let mut topics = lock(&self.topics);
        if let Some(sender) = topics.senders.get(&topic) {
            if sender.receiver_count() == 0 {
                topics.senders.remove(&topic);
            } else {
                sender.send_modify(|count| *count = count.wrapping_add(1));
            }
        }
    }

    fn ring_all_here(&self) {
        for sender in lock(&self.topics).senders.values() {
            sender.send_modify(|count| *count = count.wrapping_add(1));
        }
    }

    /// See [`control::ports::Doorbell::listen`].
    pub(crate) fn listen(&self, topic: Topic) -> watch::Receiver<u64> {
        let mut topics = lock(&self.topics);
        if topics.senders.len() >= topics.tidy_at.max(TIDY_AT_LEAST) {
            topics
                .senders
                .retain(|_, sender| sender.receiver_count() > 0);
            topics.tidy_at = topics.senders.len() * 2;
        }
        topics
            .senders
            .entry(topic)
            .or_insert_with(|| watch::Sender::new(0))
            .subscribe()
    }

    #[cfg(test)]
    fn kept(&self) -> usize {
        lock(&self.topics).senders.len()
    }
}

/// The topic as a notification's payload.
fn write_topic(topic: Topic) -> String {
    match topic {
        Topic::Run(id) => format!("run:{id}"),
        Topic::Queue => "queue".to_owned(),
        Topic::Environments => "environments".to_owned(),
        Topic::Sessions => "sessions".to_owned(),
        Topic::Orders => "orders".to_owned(),
    }
}

fn read_topic(payload: &str) -> Option<Topic> {
    match payload {
        "queue" => Some(Topic::Queue),
        "environments" => Some(Topic::Environments),
        "sessions" => Some(Topic::Sessions),
        "orders" => Some(Topic::Orders),
        _ => payload.strip_prefix("run:")?.parse().ok().map(Topic::Run),
    }
}

/// Keeps the two tasks that tie this process's bells to those of the others; they end when this is dropped.
pub(crate) struct Connected(Vec<JoinHandle<()>>);

impl Drop for Connected {
    fn drop(&mut self) {
        for task in &self.0 {
            task.abort();
        }
    }
}

/// Ties the bells to those of other processes on the same PostgreSQL; from then on their rings are heard.
pub(crate) async fn connect(
    bells: &Arc<Bells>,
    options: PgConnectOptions,
    pool: PgPool,
) -> Result<Connected, sqlx::Error> {
    let listener = listen(&pool).await?;
    // The server process behind our own notifications, so that a ring does not come back as a second one.
    let own = Arc::new(AtomicI64::new(0));
    Ok(Connected(vec![
        tokio::spawn(hear(Arc::clone(bells), pool, listener, Arc::clone(&own))),
        tokio::spawn(tell(Arc::clone(bells), options, own)),
    ]))
}

async fn listen(pool: &PgPool) -> Result<PgListener, sqlx::Error> {
    let mut listener = PgListener::connect_with(pool).await?;
    listener.listen(dialect::CHANNEL).await?;
    Ok(listener)
}

/// Rings here what rang elsewhere. Whatever was missed while there was no connection is made up for by ringing
/// everything.
async fn hear(bells: Arc<Bells>, pool: PgPool, first: PgListener, own: Arc<AtomicI64>) {
    let mut pace = tokio::time::interval(RECONNECT_PACE);
    pace.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut listener = Some(first);
    while !pool.is_closed() {
        match &mut listener {
            Some(connected) => match heard_until_lost(&bells, connected, &own).await {
                Ok(()) => {
                    tracing::warn!("the doorbell's connection was lost and made again");
                    bells.ring_all_here();
                }
                Err(error) => {
                    tracing::warn!(%error, "the doorbell's connection is lost");
                    listener = None;
                }
            },
            None => {
                pace.tick().await;
                match listen(&pool).await {
                    Ok(connected) => {
                        listener = Some(connected);
                        bells.ring_all_here();
                    }
                    Err(error) => tracing::warn!(%error, "the doorbell cannot be heard"),
                }
            }
        }
    }
}

/// `Ok` when the connection was lost and is there again.
async fn heard_until_lost(
    bells: &Bells,
    listener: &mut PgListener,
    own: &AtomicI64,
) -> Result<(), sqlx::Error> {
    while let Some(notification) = listener.try_recv().await? {
        if i64::from(notification.process_id()) == own.load(Ordering::Relaxed) {
            continue;
        }
        if let Some(topic) = read_topic(notification.payload()) {
            bells.ring_here(topic);
        }
    }
    Ok(())
}

/// Passes topics on, each once however often it rang meanwhile.
async fn tell(bells: Arc<Bells>, options: PgConnectOptions, own: Arc<AtomicI64>) {
    let Some(outbox) = &bells.outbox else { return };
    let mut pace = tokio::time::interval(RECONNECT_PACE);
    pace.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut connection: Option<PgConnection> = None;
    loop {
        outbox.filled.notified().await;
        let topics = std::mem::take(&mut *lock(&outbox.topics));
        if let Err(error) = tell_once(&mut connection, &options, &own, &topics).await {
            tracing::warn!(%error, "the doorbell cannot be rung elsewhere");
            connection = None;
            lock(&outbox.topics).extend(topics);
            outbox.filled.notify_one();
            pace.tick().await;
        }
    }
}

async fn tell_once(
    connection: &mut Option<PgConnection>,
    options: &PgConnectOptions,
    own: &AtomicI64,
    topics: &HashSet<Topic>,
) -> Result<(), sqlx::Error> {
    let connection = match connection {
        Some(connection) => connection,
        None => {
            let mut fresh = PgConnection::connect_with(options).await?;
            let process: i64 = sqlx::query_scalar(dialect::BACKEND)
                .fetch_one(&mut fresh)
                .await?;
            own.store(process, Ordering::Relaxed);
            connection.insert(fresh)
        }
    };
    for topic in topics {
        sqlx::query(dialect::NOTIFY)
            .bind(dialect::CHANNEL)
            .bind(write_topic(*topic))
            .execute(&mut *connection)
            .await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use domain::ids::SetupRunId;
    use uuid::Uuid;

    use super::*;

    fn run(number: u128) -> Topic {
        Topic::Run(SetupRunId::from_uuid(Uuid::from_u128(number)))
    }

    #[test]
    fn a_ring_marks_only_its_topics_receivers() {
        let bells = Bells::default();
        let mut one = bells.listen(run(1));
        let two = bells.listen(run(2));
        bells.ring(run(1));
        bells.ring(run(1));
        assert_eq!(one.has_changed().ok(), Some(true));
        assert_eq!(two.has_changed().ok(), Some(false));
        one.mark_unchanged();
        assert_eq!(one.has_changed().ok(), Some(false));
        let late = bells.listen(run(1));
        assert_eq!(
            late.has_changed().ok(),
            Some(false),
            "only rings after listening count"
        );
    }

    #[test]
    fn topics_that_nobody_listens_to_are_dropped() {
        let bells = Bells::default();
        drop(bells.listen(Topic::Queue));
        bells.ring(Topic::Queue);
        assert_eq!(bells.kept(), 0);
        let held = bells.listen(Topic::Orders);
        for number in 0..10_000 {
            drop(bells.listen(run(number)));
        }
        assert!(bells.kept() <= TIDY_AT_LEAST + 1, "{}", bells.kept());
        bells.ring(Topic::Orders);
        assert_eq!(held.has_changed().ok(), Some(true));
    }

    #[test]
    fn topics_survive_the_way_through_a_payload() {
        for topic in [
            run(7),
            Topic::Queue,
            Topic::Environments,
            Topic::Sessions,
            Topic::Orders,
        ] {
            assert_eq!(read_topic(&write_topic(topic)), Some(topic));
        }
        assert_eq!(read_topic("run:x"), None);
    }
}
