//! The images of this machine: the control plane hears which saved layers there are, and says which nothing needs any more,
//! and which runner image there is.

use std::sync::Arc;

use domain::ids::WorkerId;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::agent::Shared;

/// Reports at once and then again and again, until stopped.
pub(crate) async fn keep(
    shared: Arc<Shared>,
    worker: watch::Receiver<WorkerId>,
    stop: CancellationToken,
) {
    loop {
        let id = *worker.borrow();
        round(&shared, id).await;
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            () = shared.time.sleep(shared.config.layers_every) => {}
        }
    }
}

/// One report. What fails is tried again in the next one.
async fn round(shared: &Shared, worker: WorkerId) {
    let layers = match shared.runtime.saved_layers().await {
        Ok(layers) => layers,
        Err(error) => {
            tracing::error!(%error, "the saved layers could not be listed");
            return;
        }
    };
    let runner = match shared.runner_image().await {
        Ok(runner) => runner,
        Err(error) => {
            tracing::error!(%error, "the runner image could not be looked up");
            return;
        }
    };
    let reported = shared
        .gateway
        .report_images(worker, &layers, runner.as_ref())
        .await;
    let condemned = match reported {
        Ok(condemned) => condemned,
        Err(error) => {
            tracing::warn!(%error, "the saved layers could not be reported");
            return;
        }
    };
    for digest in condemned {
        match shared.runtime.delete_layer(&digest).await {
            Ok(true) => tracing::info!(digest, "deleted a layer that nothing needs"),
            Ok(false) => tracing::info!(digest, "kept a layer that a sandbox here uses"),
            Err(error) => tracing::error!(%error, digest, "a layer could not be deleted"),
        }
    }
}
