//! The application layer: every use case, once, for every door (pages, REST, workers, command line).
//! Doors parse, call one method `(ctx, command)` of [`Control`], and translate (architecture, invariant 2).

use std::sync::Arc;

use domain::environment::Catalog;

pub mod accounts;
pub mod api_keys;
pub mod audit;
pub mod catalog;
pub mod config;
pub mod console;
pub mod ctx;
pub mod environments;
pub mod error;
pub mod gateway;
pub mod idempotency;
pub mod live;
pub mod ports;
pub mod reconcilers;
pub mod secret;
pub mod setup_runs;
pub mod staleness;
pub mod workers;

pub use config::Config;
pub use ctx::{Caller, Member, OpCtx, Via};
pub use error::{Error, Result};
pub use gateway::LocalGateway;
pub use idempotency::{Keyed, Outcome};
pub use secret::{Secret, ServerKey};

use ports::{Clock, Doorbell, Ids, Store};

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
}

impl Control {
    /// Builds it.
    pub fn new(parts: Parts) -> Self {
        Self(Arc::new(Inner {
            store: parts.store,
            clock: parts.clock,
            ids: parts.ids,
            bell: parts.doorbell,
            catalog: parts.catalog,
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
