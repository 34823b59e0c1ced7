//! Setup images: listing, exporting, sending to a registry, and collecting what nothing needs.

use std::{
    collections::BTreeMap,
    io::{self, Write},
    process::ExitCode,
};

use control::{Error, images::ImageItem};
use execution::{
    images::{ImageContents, ImageStore, bytes_on_disk, push},
    runtime::{Runtime, RuntimeError},
};

use super::{open::Opened, say, worker};
use crate::{cli::ImageCommand, config::Settings, datadir::DataDir, fatal::Fatal};

/// Runs one.
pub async fn run(command: ImageCommand) -> Result<ExitCode, Fatal> {
    match command {
        ImageCommand::List { places } => {
            let settings = Settings::for_places(&places)?;
            let dir = DataDir::open(&settings.data)?;
            let opened = Opened::new(&settings, &dir, None).await?;
            let items = opened.control.setup_images().await;
            opened.database.close().await;
            list(&worker::images(&dir), &items.map_err(|e| refused(&e))?)?;
        }
        ImageCommand::Export {
            image,
            output,
            places,
        } => {
            let settings = Settings::for_places(&places)?;
            let dir = DataDir::open(&settings.data)?;
            let contents = contents(&settings, &dir, &image).await?;
            let target = output.clone();
            let written = tokio::task::spawn_blocking(move || {
                contents.export(&target, &mut |step| note(step))
            })
            .await
            .map_err(|e| Fatal::new(format!("Exporting broke off ({e}); try again.")))?;
            let layout = written.map_err(|e| match e.kind() {
                io::ErrorKind::AlreadyExists => Fatal::new(format!(
                    "{} is there already; remove it, or choose another --output.",
                    output.display()
                )),
                _ => Fatal::io("write the image to", &output, &e),
            })?;
            for path in &layout.left_out {
                note(&format!(
                    "left out {}: OCI images cannot hold it",
                    path.display()
                ));
            }
            say(&layout.digest)?;
        }
        ImageCommand::Push {
            image,
            reference,
            places,
        } => {
            let settings = Settings::for_places(&places)?;
            let dir = DataDir::open(&settings.data)?;
            let contents = contents(&settings, &dir, &image).await?;
            let digest = push(
                contents,
                &reference,
                &settings.registry_login,
                worker::images(&dir).root(),
                note,
            )
            .await
            .map_err(|e| Fatal::new(e.to_string()))?;
            say(&format!("{reference} {digest}"))?;
        }
        ImageCommand::Gc { places } => {
            let settings = Settings::for_places(&places)?;
            // Alone: a server that runs may be about to start a sandbox from a layer.
            let dir = DataDir::take(&settings.data)?;
            let opened = Opened::new(&settings, &dir, None).await?;
            let needed = opened.control.needed_layers().await;
            opened.database.close().await;
            let needed = needed.map_err(|e| refused(&e))?;
            let images = worker::images(&dir);
            let failed = |e: io::Error| Fatal::io("collect the layers in", images.root(), &e);
            images.clear_fragments().map_err(failed)?;
            let runtime = worker::runtime(&settings, &dir)?;
            let refused = |e: RuntimeError| failed(io::Error::other(e.to_string()));
            let (mut count, mut bytes) = (0_u64, 0);
            for digest in runtime.saved_layers().await.map_err(refused)? {
                if needed.contains(&digest) {
                    continue;
                }
                let freed = match images.deletable_dir(&digest).map_err(failed)? {
                    Some(dir) => bytes_on_disk(&dir).map_err(failed)?,
                    None => 0,
                };
                // Not what a session's kept disk lies over.
                if runtime.delete_layer(&digest).await.map_err(refused)? {
                    say(&format!("deleted {digest}"))?;
                    bytes += freed;
                    count += 1;
                }
            }
            say(&format!("{count} deleted, {} freed", mib(bytes)))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// A step, for whoever watches.
fn note(step: &str) {
    let _ = writeln!(io::stderr(), "{step}");
}

/// Finds an image by environment, id, digest or reference.
async fn contents(
    settings: &Settings,
    dir: &DataDir,
    wanted: &str,
) -> Result<ImageContents, Fatal> {
    let images = worker::images(dir);
    let opened = Opened::new(settings, dir, None).await?;
    let items = opened.control.setup_images().await;
    opened.database.close().await;
    let found = items
        .map_err(|e| refused(&e))?
        .into_iter()
        .flat_map(|item| item.environments)
        .find(|holder| {
            holder.environment_id.to_string() == wanted
                || holder.image.image_id == wanted
                || holder.image.image == wanted
                || holder.image.digest() == Some(wanted)
        });
    let runner = |reference: &str| -> Result<std::path::PathBuf, Fatal> {
        images
            .rootfs(reference)
            .map_err(|e| Fatal::io("read the images in", images.root(), &e))?
            .ok_or_else(|| {
                Fatal::new(format!(
                    "There is no image {reference} on this machine: `groundwork image list` and `groundwork runner-image list` name those that are, and an environment has one once its setup passed."
                ))
            })
    };
    let Some(holder) = found else {
        return Ok(ImageContents {
            layers: vec![runner(wanted)?],
            history: vec![format!("runner image {wanted}")],
            created: "1970-01-01T00:00:00Z".to_owned(),
            labels: BTreeMap::new(),
            tag: tag_of(wanted),
        });
    };
    let image = holder.image;
    let base = images
        .rootfs_of(&image.base_image_digest)
        .map_err(|e| Fatal::io("read the images in", images.root(), &e))?
        .ok_or_else(|| {
            Fatal::new(format!(
                "The runner image {} that this image was prepared on is not on this machine any more; test the environment again, then export it.",
                image.runner_image
            ))
        })?;
    let layer = image
        .digest()
        .and_then(|digest| images.layer_dir(digest))
        .filter(|layer| layer.is_dir())
        .ok_or_else(|| {
            Fatal::new("The prepared layer is not on this machine; test the environment again.")
        })?;
    Ok(ImageContents {
        layers: vec![base, layer],
        history: vec![
            format!("runner image {}", image.runner_image),
            format!("setup script of {}", holder.environment_id),
        ],
        created: image.captured_at.to_string(),
        labels: BTreeMap::from([
            (
                "groundwork.environment_id".to_owned(),
                holder.environment_id.to_string(),
            ),
            (
                "groundwork.setup_run_id".to_owned(),
                image.setup_run_id.to_string(),
            ),
            (
                "groundwork.fingerprint".to_owned(),
                image.fingerprint.0.clone(),
            ),
            (
                "groundwork.runner_image_digest".to_owned(),
                image.base_image_digest.clone(),
            ),
        ]),
        tag: format!("generation-{}", image.generation),
    })
}

/// The tag of a reference.
fn tag_of(reference: &str) -> String {
    let name = reference.rsplit('/').next().unwrap_or_default();
    let tag = name.split_once(':').map_or("latest", |(_, tag)| tag);
    tag.split('@').next().unwrap_or("latest").to_owned()
}

fn mib(bytes: u64) -> String {
    format!("{} MiB", bytes.div_ceil(1024 * 1024))
}

/// One line each, fields apart by tabs; those on this machine that nothing needs come last.
fn list(images: &ImageStore, items: &[ImageItem]) -> Result<(), Fatal> {
    let failed = |e: io::Error| Fatal::io("read the images in", images.root(), &e);
    let here = images.saved_layers().map_err(failed)?;
    for item in items {
        let mut needed: Vec<String> = item
            .environments
            .iter()
            .map(|holder| format!("{} ({})", holder.name, holder.environment_id))
            .collect();
        if item.in_session {
            needed.push("a session".to_owned());
        }
        let elsewhere = if here.contains(&item.digest) {
            ""
        } else {
            "\tnot on this machine"
        };
        say(&format!(
            "{}\t{}\t{}\t{}{elsewhere}",
            item.digest,
            mib(item.size_bytes),
            item.used_at,
            needed.join(", ")
        ))?;
    }
    for digest in &here {
        if items.iter().any(|item| item.digest == *digest) {
            continue;
        }
        let bytes = images
            .layer_dir(digest)
            .map_or(Ok(0), |dir| bytes_on_disk(&dir))
            .map_err(failed)?;
        say(&format!("{digest}\t{}\t-\tno environment", mib(bytes)))?;
    }
    for digest in images.replaced_runners().map_err(failed)? {
        let dir = images.deletable_dir(&digest).map_err(failed)?;
        let bytes = dir.map_or(Ok(0), |dir| bytes_on_disk(&dir));
        let size = mib(bytes.map_err(failed)?);
        say(&format!("{digest}\t{size}\t-\ta replaced runner image"))?;
    }
    Ok(())
}

/// A refusal in the operator's words; the operator may see the causes.
pub(super) fn refused(error: &Error) -> Fatal {
    let chain = error.chain();
    Fatal::new(if chain.is_empty() {
        error.api().message.clone()
    } else {
        format!("{} ({})", error.api().message, chain.join(": "))
    })
}
