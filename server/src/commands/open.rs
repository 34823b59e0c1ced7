//! Opening what commands work on: the data directory, the database, the application layer.

use std::sync::Arc;

use control::{
    Config, Control, Parts, SecretsKey, ServerKey,
    ports::{Ids, SecretStore as _},
    secrets::KeyCheck,
};
use domain::environment::Catalog;
use store::OpenOptions;

use super::worker::Worker;
use crate::{
    clock::{SystemClock, SystemIds},
    config::{Database, Settings},
    datadir::DataDir,
    fatal::Fatal,
};

/// Everything that a command works on.
pub struct Opened {
    /// The application layer.
    pub control: Control,
    /// Storage, to be closed at the end.
    pub database: Arc<store::Database>,
    /// Time.
    pub clock: SystemClock,
    /// Ids.
    pub ids: Arc<dyn Ids>,
}

impl Opened {
    /// Opens the database in `dir` or wherever the settings say, and builds the application layer; sessions are those of
    /// `worker`.
    pub async fn new(
        settings: &Settings,
        dir: &DataDir,
        worker: Option<&Worker>,
    ) -> Result<Self, Fatal> {
        let key = dir.key()?;
        let database = store::open(&url(&settings.database)?, OpenOptions { migrate: true })
            .await
            .map_err(|e| Fatal::new(e.to_string()))?;
        let sealed = database
            .any_secret()
            .await
            .map_err(|e| Fatal::new(e.to_string()))?;
        let key_file = settings.secrets_key_file.as_deref();
        let secrets_key = dir.secrets_key(key_file, sealed)?;
        let clock = SystemClock::new();
        let ids: Arc<dyn Ids> = Arc::new(SystemIds);
        let control = Control::new(Parts {
            store: database.clone(),
            clock: Arc::new(clock),
            ids: ids.clone(),
            doorbell: database.clone(),
            catalog: Arc::new(catalog(settings)),
            sessions: worker.map(|worker| worker.sessions(clock)),
            config: Config {
                images_max_bytes: settings.images_max_bytes,
                open_networks: settings.open_networks.clone(),
                own_addresses: settings.own_addresses.clone(),
                secrets_key: SecretsKey::new(*secrets_key.bytes()),
                ..Config::new(ServerKey::new(*key.bytes()))
            },
        });
        let checked = control.check_secrets_key().await;
        if checked.map_err(|e| Fatal::new(e.to_string()))? == KeyCheck::Other {
            return Err(Fatal::new(
                "The key file for secret variables is not the one that they were sealed with; put the right one back from a backup (secrets.key_file, or secrets.key in the data directory).",
            ));
        }
        Ok(Self {
            control,
            database,
            clock,
            ids,
        })
    }
}

/// What this deployment offers.
fn catalog(settings: &Settings) -> Catalog {
    // Every policy is enforced by the egress gateway of the runtime, so hosts can be opened; and files can be mounted
    // without any volume.
    let catalog = Catalog::default_runs(settings.runner_image.clone(), settings.machine)
        .with_egress()
        .with_mounts(settings.volumes.iter().map(|volume| &volume.name));
    Catalog {
        host_groups: settings.host_groups.clone(),
        ..catalog
    }
}

/// The database as the storage layer wants it. A path may hold characters that mean something in a URL.
fn url(database: &Database) -> Result<String, Fatal> {
    match database {
        Database::Postgres(url) => Ok(url.clone()),
        Database::Sqlite(path) => {
            let path = path.to_str().ok_or_else(|| {
                Fatal::new(format!(
                    "The database's path {} is not UTF-8; choose another with --database.",
                    path.display()
                ))
            })?;
            let mut url = String::from("sqlite://");
            for c in path.chars() {
                match c {
                    '%' => url.push_str("%25"),
                    '?' => url.push_str("%3F"),
                    '#' => url.push_str("%23"),
                    c => url.push(c),
                }
            }
            Ok(url)
        }
    }
}
