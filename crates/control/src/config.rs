//! What the application layer is told at start.

use std::{net::IpAddr, time::Duration};

use domain::{limits, network_policy::Cidr};

use crate::{sealing::SecretsKey, secret::ServerKey};

/// Settings of the application layer. All waiting is measured on the monotonic clock.
#[derive(Clone)]
pub struct Config {
    /// Key that API-key secrets are hashed with; kept by the server across restarts.
    pub server_key: ServerKey,
    /// Key that secret variables are sealed with; kept by the server across restarts.
    pub secrets_key: SecretsKey,
    /// Workers renew their leases at least this often.
    pub lease_renew_after: Duration,
    /// Without a heartbeat for this long a lease is lost.
    pub lease_lost_after: Duration,
    /// A waiting run fails after this long while no worker is there at all.
    pub queue_deadline: Duration,
    /// A waiting run fails after this long even while workers are there but have no room.
    pub queue_deadline_busy: Duration,
    /// Seconds that logs are kept after their run ended.
    pub log_retention_seconds: i64,
    /// How many passwords are hashed at once; each takes 19 MiB.
    pub password_hashes_at_once: usize,
    /// argon2id cost: memory in KiB and passes. Tests lower it.
    pub password_cost: (u32, u32),
    /// Followers and waiting requests read again after this long even when no bell rang.
    pub backup_poll: Duration,
    /// Followers check this often that the viewer may still look.
    pub access_recheck: Duration,
    /// A follower that has nothing to say for this long sends a beat, so that nothing on the way hangs up.
    pub beat_after: Duration,
    /// News of the environments table come at most this often.
    pub table_news_after: Duration,
    /// A saved layer that nothing needs is deleted after this long: longer than it takes from saving a layer to the report
    /// of its run, and from admitting a session to its sandbox.
    pub layer_grace: Duration,
    /// An image whose layer no worker has any more is no longer usable after this long.
    pub layer_missing_after: Duration,
    /// Bytes that setup images may take together; `None`: no limit.
    pub images_max_bytes: Option<u64>,
    /// Private networks that the deployment opens to sandboxes whose policy allows the host.
    pub open_networks: Vec<Cidr>,
    /// Addresses of the deployment besides those of its machines' interfaces; no sandbox reaches them.
    pub own_addresses: Vec<IpAddr>,
    /// Sessions of one organization that are live at once.
    pub sessions_live_max: usize,
    /// A session whose sandbox does not come up within this time is given up.
    pub session_start_within: Duration,
}

impl Config {
    /// The product's settings.
    pub fn new(server_key: ServerKey) -> Self {
        Self {
            secrets_key: SecretsKey::derived(&server_key),
            server_key,
            lease_renew_after: Duration::from_secs(5),
            lease_lost_after: Duration::from_secs(20),
            queue_deadline: Duration::from_secs(600),
            queue_deadline_busy: Duration::from_secs(7_200),
            log_retention_seconds: limits::RUN_RETENTION_SECONDS,
            password_hashes_at_once: 2,
            password_cost: (19 * 1024, 2),
            backup_poll: Duration::from_secs(2),
            access_recheck: Duration::from_secs(15),
            beat_after: Duration::from_secs(15),
            table_news_after: Duration::from_millis(500),
            layer_grace: Duration::from_secs(300),
            layer_missing_after: Duration::from_secs(90),
            images_max_bytes: None,
            open_networks: Vec::new(),
            own_addresses: Vec::new(),
            sessions_live_max: limits::SESSIONS_LIVE_MAX,
            session_start_within: Duration::from_secs(120),
        }
    }
}
