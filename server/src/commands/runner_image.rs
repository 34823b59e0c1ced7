//! Building and listing runner images.

use std::{
    io::{self, Write},
    process::ExitCode,
};

use execution::images::Variant;

use super::say;
use crate::{
    cli::{self, RunnerImageCommand},
    config::Settings,
    datadir::DataDir,
    fatal::Fatal,
};

/// Runs one.
pub async fn run(command: RunnerImageCommand) -> Result<ExitCode, Fatal> {
    let places = match &command {
        RunnerImageCommand::Build { places, .. }
        | RunnerImageCommand::Pull { places, .. }
        | RunnerImageCommand::List { places } => places,
    };
    let settings = Settings::for_places(places)?;
    let dir = DataDir::open(&settings.data)?;
    let images = super::worker::images(&dir);
    match command {
        RunnerImageCommand::Build {
            variant, refresh, ..
        } => {
            let variant = match variant {
                cli::Variant::Small => Variant::Small,
                cli::Variant::Full => Variant::Full,
            };
            let image = images
                .build_runner(variant, refresh, |step| {
                    let _ = writeln!(io::stderr(), "{step}");
                })
                .map_err(|e| Fatal::new(e.to_string()))?;
            say(&format!("{} {}", image.reference, image.digest))?;
        }
        RunnerImageCommand::Pull { reference, .. } => {
            let image = images
                .pull_runner(&reference, &settings.registry_login, |step| {
                    let _ = writeln!(io::stderr(), "{step}");
                })
                .await
                .map_err(|e| Fatal::new(e.to_string()))?;
            say(&format!("{} {}", image.reference, image.digest))?;
        }
        RunnerImageCommand::List { .. } => {
            let found = images
                .runner_images()
                .map_err(|e| Fatal::io("read the images in", images.root(), &e))?;
            if found.is_empty() {
                let _ = writeln!(
                    io::stderr(),
                    "No runner image; build one with `groundwork runner-image build`."
                );
            }
            for image in found {
                say(&format!(
                    "{}\t{}\t{} MiB",
                    image.reference,
                    image.digest,
                    image.size_bytes / (1024 * 1024)
                ))?;
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}
