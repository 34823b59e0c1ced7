//! The application layer: every use case, once, for every door (pages, REST, workers, command line).
//! Doors parse, call one method `(ctx, command)` of [`Control`], and translate (architecture, invariant 2).

use std::sync::{Arc, Mutex};

use domain::environment::Catalog;

pub mod accounts;
pub mod and_test;
pub mod api_keys;
pub mod audit;
pub mod catalog;
pub mod config;
pub mod console;
pub mod ctx;
mod ending;
pub mod environments;
pub mod error;
pub mod gateway;
pub mod history;
pub mod idempotency;
pub mod images;
mod leases;
pub mod live;
mod log_reading;
pub mod members;
mod mending;
mod passwords;
pub mod policy;
pub mod ports;
pub mod reconcilers;
mod rights;
pub mod run_records;
mod sealing;
pub mod search;
pub mod secret;
pub mod secrets;
pub mod sessions;
pub mod setup_runs;
pub mod staleness;
mod throttle;
mod trusted_time;
mod validation;
pub mod variables;
mod view;
mod views;
pub mod workers;

pub use config::Config;
pub use ctx::{Caller, Member, OpCtx, SignIn, Via};
pub use error::{Error, Result};
pub use gateway::LocalGateway;
pub use idempotency::{Keyed, Outcome};
pub use rights::Rights;
pub use sealing::SecretsKey;
pub use secret::{Secret, ServerKey};

use images::Layers;
use leases::Leases;
use passwords::Passwords;
use ports::{Clock, Doorbell, Ids, Store};
use throttle::Throttle;
use trusted_time::TrustedTime;
use views::Views;
use wire::session_host::SessionHost;

/// How often a compare-and-set is tried again when somebody was faster. Each time somebody else got on, so that this many
/// calls at once on one row all succeed.
pub(crate) const RACES_MAX: usize = 64;

/// What [`Control`] is built from.
pub struct Parts {
    /// Storage.
    pub store: Arc<dyn Store>,
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Ids.
    pub ids: Arc<dyn Ids>,
    /// Bells; the store rings the same ones.
    pub doorbell: Arc<dyn Doorbell>,
    /// What the deployment offers.
    pub catalog: Arc<Catalog>,
    /// The worker in this process, for sessions; `None`: no session can be started here.
    pub sessions: Option<Arc<dyn SessionHost>>,
    /// Settings.
    pub config: Config,
}

/// The application layer. Cheap to clone: all clones are the same one.
#[derive(Clone)]
pub struct Control(Arc<Inner>);

struct Inner {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
    bell: Arc<dyn Doorbell>,
    catalog: Arc<Catalog>,
    config: Config,
    passwords: Passwords,
    throttle: Mutex<Throttle>,
    trusted: TrustedTime,
    leases: Mutex<Leases>,
    layers: Mutex<Layers>,
    views: Views,
    host: Option<Arc<dyn SessionHost>>,
    live: sessions::Live,
}

impl Control {
    /// Builds it.
    pub fn new(parts: Parts) -> Self {
        Self(Arc::new(Inner {
            trusted: TrustedTime::new(&*parts.clock),
            store: parts.store,
            clock: parts.clock,
            ids: parts.ids,
            bell: parts.doorbell,
            catalog: parts.catalog,
            passwords: Passwords::new(
                parts.config.password_hashes_at_once,
                parts.config.password_cost,
            ),
            throttle: Mutex::new(Throttle::default()),
            leases: Mutex::new(Leases::default()),
            layers: Mutex::new(Layers::default()),
            views: Views::default(),
            host: parts.sessions,
            live: sessions::Live::default(),
            config: parts.config,
        }))
    }
    /// What the deployment offers.
    pub fn catalog(&self) -> &Catalog {
        &self.0.catalog
    }
    /// Time, for doors that need it.
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.0.clock
    }
    /// Storage, for the console's sign-ins (`server`'s session store) and readiness.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.0.store
    }
}
