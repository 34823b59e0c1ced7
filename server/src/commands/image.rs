//! Setup images: listing, and collecting what nothing needs.

use std::process::ExitCode;

use control::{Error, images::ImageItem};
use execution::images::{ImageStore, bytes_on_disk};

use super::{open::Opened, say, worker};
use crate::{cli::ImageCommand, config::Settings, datadir::DataDir, fatal::Fatal};

/// Runs one.
pub async fn run(command: ImageCommand) -> Result<ExitCode, Fatal> {
    match command {
        ImageCommand::List { places } => {
            let settings = Settings::for_places(&places)?;
            let dir = DataDir::open(&settings.data)?;
            let opened = Opened::new(&settings, &dir).await?;
            let items = opened.control.setup_images().await;
            opened.database.close().await;
            list(&worker::images(&dir), &items.map_err(|e| refused(&e))?)?;
        }
        ImageCommand::Gc { places } => {
            let settings = Settings::for_places(&places)?;
            // Alone: a server that runs may be about to start a sandbox from a layer.
            let dir = DataDir::take(&settings.data)?;
            let opened = Opened::new(&settings, &dir).await?;
            let needed = opened.control.needed_layers().await;
            opened.database.close().await;
            let needed = needed.map_err(|e| refused(&e))?;
            let images = worker::images(&dir);
            let failed = |e: std::io::Error| Fatal::io("collect the layers in", images.root(), &e);
            images.clear_fragments().map_err(failed)?;
            let (mut count, mut bytes) = (0_u64, 0);
            for digest in images.saved_layers().map_err(failed)? {
                if needed.contains(&digest) {
                    continue;
                }
                if let Some(dir) = images.layer_dir(&digest) {
                    bytes += bytes_on_disk(&dir).map_err(failed)?;
                }
                images.delete_layer(&digest).map_err(failed)?;
                say(&format!("deleted {digest}"))?;
                count += 1;
            }
            say(&format!("{count} deleted, {} freed", mib(bytes)))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn mib(bytes: u64) -> String {
    format!("{} MiB", bytes.div_ceil(1024 * 1024))
}

/// One line each, fields apart by tabs; those on this machine that nothing needs come last.
fn list(images: &ImageStore, items: &[ImageItem]) -> Result<(), Fatal> {
    let here = images
        .saved_layers()
        .map_err(|e| Fatal::io("read the images in", images.root(), &e))?;
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
            .map_err(|e| Fatal::io("read the images in", images.root(), &e))?;
        say(&format!("{digest}\t{}\t-\tno environment", mib(bytes)))?;
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
