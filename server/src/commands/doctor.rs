//! `groundwork doctor`

use std::process::ExitCode;

use execution::runtime::{CheckState, Runtime};

use super::say;
use crate::{
    cli::DoctorArgs,
    config::{Settings, volumes},
    datadir::DataDir,
    fatal::Fatal,
};

/// Checks the machine, or lists leftovers; exit code 1 when something is wrong or left.
pub async fn run(args: DoctorArgs) -> Result<ExitCode, Fatal> {
    let mut settings = Settings::for_places(&args.places)?;
    volumes::check(&mut settings)?;
    let dir = DataDir::open(&settings.data)?;
    let runtime = super::worker::runtime(&settings, &dir)?;
    if args.leftovers {
        let found = runtime
            .leftovers()
            .await
            .map_err(|e| Fatal::new(format!("The machine cannot be searched: {e}.")))?;
        for leftover in &found {
            say(&format!("{}\t{}", leftover.kind, leftover.what))?;
        }
        if found.is_empty() {
            say("Nothing is left over.")?;
            return Ok(ExitCode::SUCCESS);
        }
        return Ok(ExitCode::FAILURE);
    }
    let mut failed = 0;
    for check in runtime.check().await {
        let word = match check.state {
            CheckState::Ok => "ok",
            CheckState::Warning => "warning",
            CheckState::Failed => {
                failed += 1;
                "FAILED"
            }
        };
        say(&format!("{word:8}{}: {}", check.name, check.found))?;
        if !check.mend.is_empty() {
            say(&format!("        {}", check.mend))?;
        }
    }
    if failed == 0 {
        say("This machine can run sandboxes.")?;
        Ok(ExitCode::SUCCESS)
    } else {
        say(&format!(
            "This machine cannot run sandboxes: {failed} check(s) failed. `groundwork serve --no-worker` starts the console and the API alone."
        ))?;
        Ok(ExitCode::FAILURE)
    }
}
