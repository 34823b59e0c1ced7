//! Mending what made a run fail, and testing again (spec 3-console, *Setup test panel*).

use domain::{
    ids::{EnvironmentId, SetupRunId},
    mending,
    roles::Action,
};
use wire::managed_agents::SetupRun;

use crate::{
    Control, Error, Keyed, OpCtx, Outcome, RACES_MAX, Result,
    idempotency::ReceiptMaker,
    ports::{Written, rows::SetupRunRow},
};

impl Control {
    /// Raises the limit that a failed run ran into to its next value, saves, and tests again. An environment that has
    /// that much already is only tested.
    pub async fn raise_limit_and_test(
        &self,
        ctx: &OpCtx,
        environment: EnvironmentId,
        run: SetupRunId,
        key: Option<Keyed>,
    ) -> Result<Outcome<SetupRun>> {
        let (mut row, failed) = self
            .load_run(ctx, environment, run, Action::ChangeEnvironments)
            .await?;
        let raise = self.raise_of(&failed).ok_or_else(|| {
            Error::invalid_request(
                "No larger limit mends this run: its failure has another cause, or the limit is the largest there is.",
            )
        })?;
        for _ in 0..RACES_MAX {
            if raise.is_done(&row.definition) {
                return self.start_setup_run(ctx, environment, key).await;
            }
            let raised = raise.apply(&row.definition);
            let (written, _) = self
                .write_definition(
                    ctx,
                    &row,
                    raised,
                    "environment.update",
                    &ReceiptMaker::none(),
                )
                .await?;
            if written == Written::Done {
                return self.start_setup_run(ctx, environment, key).await;
            }
            row = self
                .load_environment(ctx, environment, Action::ChangeEnvironments)
                .await?;
        }
        Err(Error::revision_conflict(Vec::new()))
    }

    /// The limit that would have mended a run.
    pub(crate) fn raise_of(&self, run: &SetupRunRow) -> Option<mending::Raise> {
        mending::raise(
            run.record.hint_code?,
            &run.definition,
            &self.0.catalog.sizes,
        )
    }
}
