//! The life of setup images (spec 4-execution, *Images*). Layers are content-addressed files of the workers' machines; who
//! needs one is never counted but read from the rows: environments whose verdict has it, and sessions that rest upon it.
//! A runner image that was replaced is a layer like others: setup images that were prepared on it need it.
//!
//! Each worker says from time to time which layers it has ([`wire::worker::Gateway::report_images`]) and is told which to
//! delete. A layer that nothing needs stays for a grace period of this process's monotonic time, so that none goes between
//! being saved and being reported, or between a session's admission and its sandbox.

use std::{
    collections::{HashMap, HashSet},
    time::Duration,
};

use domain::{
    ids::{EnvironmentId, WorkerId},
    timestamp::Timestamp,
    verification::{ImageLoss, SetupImage},
};
use wire::worker::RunnerImage;

use crate::{
    Control, RACES_MAX, Result,
    accounts::lock,
    ports::{Effects, StoreError, Written, rows::EnvironmentRow},
};

/// A worker that another server heard of counts as there for so long, as far as its images go: they come back with a server
/// that is started anew or a machine that is serviced.
const AWAY_AT_MOST: Duration = Duration::from_secs(3_600);

/// What this process remembers of layers; a restart forgets it, and gives every layer time anew.
#[derive(Debug, Default)]
pub(crate) struct Layers {
    /// What each worker reported last, and when (monotonic).
    reports: HashMap<WorkerId, (Duration, HashSet<String>)>,
    /// Since when nothing needs a layer that a worker has.
    unneeded: HashMap<(WorkerId, String), Duration>,
    /// Since when a layer that an environment needs is on no worker.
    missing: HashMap<String, Duration>,
    /// For `/metrics`.
    figures: ImageFigures,
}

/// Setup images in figures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ImageFigures {
    /// Images that sessions can start from; environments may share one.
    pub images: u64,
    /// Bytes that they take together.
    pub bytes: u64,
    /// Layers that workers were told to delete since the start.
    pub layers_deleted: u64,
    /// Images that gave way to others since the start.
    pub evicted: u64,
    /// Images whose layer was found missing since the start.
    pub missing: u64,
}

/// A usable image and who shares it.
#[derive(Debug, Clone)]
struct Shared {
    bytes: u64,
    /// When a session last came up from it, or it was captured.
    used_at: Timestamp,
    holders: Vec<EnvironmentRow>,
}

/// A setup image as an operator lists it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageItem {
    /// Digest of its layer, `sha256:…`.
    pub digest: String,
    /// Bytes of the layer.
    pub size_bytes: u64,
    /// Environments that have it.
    pub environments: Vec<ImageHolder>,
    /// Whether a session that is not deleted rests upon it.
    pub in_session: bool,
    /// When a session last came up from it, or it was captured.
    pub used_at: Timestamp,
}

/// An environment that has an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageHolder {
    /// Id.
    pub environment_id: EnvironmentId,
    /// Name.
    pub name: String,
    /// The image.
    pub image: SetupImage,
}

/// Digests of the runner images that setup images were prepared on: without theirs they cannot be exported.
fn bases(images: &HashMap<String, Shared>) -> HashSet<String> {
    images
        .values()
        .flat_map(|image| &image.holders)
        .filter_map(image_of)
        .map(|(image, _)| image.base_image_digest.clone())
        .collect()
}

fn image_of(row: &EnvironmentRow) -> Option<(&SetupImage, &str)> {
    let image = row.verification.image.as_ref()?;
    Some((image, image.digest()?))
}

impl Control {
    /// Images that sessions can start from, by digest.
    async fn usable_images(&self) -> std::result::Result<HashMap<String, Shared>, StoreError> {
        let starts: HashMap<EnvironmentId, Timestamp> = self
            .0
            .store
            .last_session_starts()
            .await?
            .into_iter()
            .collect();
        let mut images: HashMap<String, Shared> = HashMap::new();
        for row in self.0.store.environments_with_image().await? {
            let Some((image, digest)) = image_of(&row).filter(|(image, _)| image.usable) else {
                continue;
            };
            let started = starts.get(&row.environment_id).copied();
            let used_at = image.captured_at.max(started.unwrap_or(image.captured_at));
            let bytes = u64::try_from(image.size_bytes).unwrap_or(0);
            let digest = digest.to_owned();
            let shared = images.entry(digest).or_insert_with(|| Shared {
                bytes,
                used_at,
                holders: Vec::new(),
            });
            shared.used_at = shared.used_at.max(used_at);
            shared.holders.push(row);
        }
        Ok(images)
    }

    /// Notes the runner image that a worker has now. Sessions are judged by it: one whose setup image was prepared on
    /// another has it prepared anew first.
    pub(crate) async fn note_runner(
        &self,
        worker: WorkerId,
        runner: Option<&RunnerImage>,
    ) -> std::result::Result<(), StoreError> {
        let now_there = runner.map(|image| (image.reference.clone(), image.digest.clone()));
        let known = self.0.store.workers().await?;
        let row = known.into_iter().find(|row| row.worker_id == worker);
        if let Some(mut row) = row.filter(|row| row.runner_image != now_there) {
            tracing::info!(worker = row.name, image = ?now_there, "a worker's runner image has changed");
            row.runner_image = now_there;
            row.seen_at = self.0.clock.now();
            self.0.store.register_worker(&row).await?;
        }
        Ok(())
    }

    /// Takes a worker's list of layers, and answers those that it is to delete.
    pub(crate) async fn judge_layers(
        &self,
        worker: WorkerId,
        layers: &[String],
    ) -> std::result::Result<Vec<String>, StoreError> {
        let now = self.0.clock.monotonic();
        lock(&self.0.layers)
            .reports
            .insert(worker, (now, layers.iter().cloned().collect()));
        let mut images = self.usable_images().await?;
        let sessions: HashSet<String> = self.0.store.session_layers().await?.into_iter().collect();
        self.note_missing(&mut images).await?;
        self.evict(&mut images, &sessions).await?;

        let mut state = lock(&self.0.layers);
        state.figures.images = images.len() as u64;
        state.figures.bytes = images.values().map(|image| image.bytes).sum();
        let bases = bases(&images);
        let needed = |digest: &String| {
            images.contains_key(digest) || sessions.contains(digest) || bases.contains(digest)
        };
        state.unneeded.retain(|(of, digest), _| {
            *of != worker || (layers.contains(digest) && !needed(digest))
        });
        let mut condemned = Vec::new();
        for digest in layers.iter().filter(|digest| !needed(digest)) {
            let since = *state
                .unneeded
                .entry((worker, digest.clone()))
                .or_insert(now);
            if now.saturating_sub(since) >= self.0.config.layer_grace {
                condemned.push(digest.clone());
            }
        }
        state.figures.layers_deleted += condemned.len() as u64;
        Ok(condemned)
    }

    /// Marks images whose layer no worker has had for a while. Says nothing as long as a worker that was heard of lately, be
    /// it by another process alone, has not reported to this one.
    async fn note_missing(
        &self,
        images: &mut HashMap<String, Shared>,
    ) -> std::result::Result<(), StoreError> {
        let workers = self.0.store.workers().await?;
        let now = self.0.clock.monotonic();
        let alive = {
            let mut leases = lock(&self.0.leases);
            leases.look_at(&workers, now);
            leases.alive(now, AWAY_AT_MOST)
        };
        let lost: Vec<String> = {
            let mut state = lock(&self.0.layers);
            if alive.iter().any(|id| !state.reports.contains_key(id)) {
                // What was missing may be there: its time begins anew once that worker is gone.
                state.missing.clear();
                return Ok(());
            }
            let somewhere: HashSet<String> = state
                .reports
                .values()
                .flat_map(|(_, layers)| layers.iter().cloned())
                .collect();
            state
                .missing
                .retain(|digest, _| images.contains_key(digest) && !somewhere.contains(digest));
            images
                .keys()
                .filter(|digest| !somewhere.contains(*digest))
                .filter(|digest| {
                    let since = *state.missing.entry((*digest).clone()).or_insert(now);
                    now.saturating_sub(since) >= self.0.config.layer_missing_after
                })
                .cloned()
                .collect()
        };
        for digest in lost {
            if let Some(image) = images.remove(&digest) {
                self.lose_image(&digest, &image.holders, ImageLoss::Missing)
                    .await?;
                lock(&self.0.layers).figures.missing += 1;
            }
        }
        Ok(())
    }

    /// Takes the images used longest ago from their environments until the rest fits. One that a session rests upon stays:
    /// taking it would free nothing.
    async fn evict(
        &self,
        images: &mut HashMap<String, Shared>,
        sessions: &HashSet<String>,
    ) -> std::result::Result<(), StoreError> {
        let Some(most) = self.0.config.images_max_bytes else {
            return Ok(());
        };
        let mut total: u64 = images.values().map(|image| image.bytes).sum();
        let mut oldest: Vec<(Timestamp, String)> = images
            .iter()
            .filter(|(digest, _)| !sessions.contains(*digest))
            .map(|(digest, image)| (image.used_at, digest.clone()))
            .collect();
        oldest.sort();
        for (_, digest) in oldest {
            if total <= most {
                break;
            }
            if let Some(image) = images.remove(&digest) {
                tracing::info!(digest, bytes = image.bytes, "a setup image gives way");
                self.lose_image(&digest, &image.holders, ImageLoss::Evicted)
                    .await?;
                total = total.saturating_sub(image.bytes);
                lock(&self.0.layers).figures.evicted += 1;
            }
        }
        Ok(())
    }

    /// Writes into environments that their image is not usable any more. One that changes meanwhile is read again; a newer
    /// image is left alone.
    async fn lose_image(
        &self,
        digest: &str,
        holders: &[EnvironmentRow],
        loss: ImageLoss,
    ) -> std::result::Result<(), StoreError> {
        for holder in holders {
            let mut row = Some(holder.clone());
            for _ in 0..RACES_MAX {
                let Some(before) = row else { break };
                let Some(verification) = before.verification.image_lost(digest, loss) else {
                    break;
                };
                let mut next = before.clone();
                next.version += 1;
                next.verification = verification;
                let written = self
                    .0
                    .store
                    .update_environment(before.version, &next, Effects::default())
                    .await?;
                if written == Written::Done {
                    break;
                }
                row = self
                    .0
                    .store
                    .environment(before.organization_id, before.environment_id)
                    .await?;
            }
        }
        Ok(())
    }

    /// Setup images in figures, as of the last report of a worker.
    pub fn image_figures(&self) -> ImageFigures {
        lock(&self.0.layers).figures
    }

    /// Every setup image of the deployment, used longest ago first. For the operator's command line, not for members.
    ///
    /// # Errors
    /// The database's.
    pub async fn setup_images(&self) -> Result<Vec<ImageItem>> {
        let sessions: HashSet<String> = self.0.store.session_layers().await?.into_iter().collect();
        let mut items: Vec<ImageItem> = self
            .usable_images()
            .await?
            .into_iter()
            .map(|(digest, image)| ImageItem {
                in_session: sessions.contains(&digest),
                size_bytes: image.bytes,
                used_at: image.used_at,
                environments: image
                    .holders
                    .into_iter()
                    .filter_map(|row| {
                        Some(ImageHolder {
                            environment_id: row.environment_id,
                            name: row.definition.name,
                            image: row.verification.image?,
                        })
                    })
                    .collect(),
                digest,
            })
            .collect();
        items.sort_by(|a, b| (a.used_at, &a.digest).cmp(&(b.used_at, &b.digest)));
        Ok(items)
    }

    /// Digests of all layers and runner images that an environment or a session needs. For collecting while no server runs.
    ///
    /// # Errors
    /// The database's.
    pub async fn needed_layers(&self) -> Result<HashSet<String>> {
        let mut needed: HashSet<String> =
            self.0.store.session_layers().await?.into_iter().collect();
        let images = self.usable_images().await?;
        needed.extend(bases(&images));
        needed.extend(images.into_keys());
        Ok(needed)
    }
}
