//! The reconciler of sessions: brings rows and worker into agreement, stops what is idle or past its life, removes what
//! was kept long enough, and measures.

use std::{collections::HashSet, sync::Arc, time::Duration};

use domain::{
    ids::SessionId,
    session::{Command, Status, Wish},
};
use wire::session_host::{Presence, SessionHost};

use crate::{Control, OpCtx, Result, ports::SessionRow};

/// `30 minutes`, `2 hours`, `45 seconds`.
fn in_words(seconds: u32) -> String {
    let (number, unit) = match seconds {
        s if s % 3_600 == 0 && s > 0 => (s / 3_600, "hour"),
        s if s % 60 == 0 && s > 0 => (s / 60, "minute"),
        s => (s, "second"),
    };
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {unit}{plural}")
}

impl Control {
    /// Whether a task of this process is bringing the session to rest. Until that has ended, which can be after what it did
    /// is seen, the reconciler leaves the session alone.
    pub fn is_driving(&self, id: SessionId) -> bool {
        self.0.live.is_driven(id)
    }

    /// Looks after this worker's sessions; answers how many were changed.
    pub async fn tick_sessions(&self) -> Result<usize> {
        let Ok(host) = self.host() else {
            return Ok(0);
        };
        let rows = self.0.store.sessions_on(&host.name()).await?;
        let known: HashSet<_> = rows.iter().map(|row| row.session_id).collect();
        self.0.live.retain(&known);
        let mut changed = 0;
        for row in rows {
            if self.0.live.is_driven(row.session_id) {
                continue;
            }
            match self.look_after(host, &row).await {
                Ok(true) => changed += 1,
                Ok(false) => {}
                Err(error) => {
                    tracing::warn!(session = %row.session_id, error = %error, chain = ?error.chain(), "a session could not be looked after");
                }
            }
        }
        Ok(changed)
    }

    async fn look_after(&self, host: &Arc<dyn SessionHost>, row: &SessionRow) -> Result<bool> {
        if row.environment_deleted_at.is_some() && row.state.wish != Some(Wish::Delete) {
            self.wish_ours(row, Command::RequestDelete, "Its environment was deleted.")
                .await?;
            return Ok(true);
        }
        if row.state.wish.is_some() || row.state.status == Status::Provisioning {
            self.drive(row);
            return Ok(true);
        }
        let presence = match host.presence(row.sandbox_id).await {
            Ok(presence) => presence,
            Err(error) => {
                tracing::warn!(session = %row.session_id, cause = %error, "the worker cannot say how a session stands");
                return Ok(false);
            }
        };
        match (row.state.status, presence) {
            (Status::Running, Presence::Running) => self.look_after_running(host, row).await,
            (Status::Running, _) => {
                let kept = presence == Presence::Kept;
                let life = self.life_over(row);
                self.note(row, Command::Lost { kept }, |next| {
                    next.record.message = match (kept, life.clone()) {
                        (true, Some(text)) => text,
                        (true, None) => {
                            "Its sandbox ended: its worker was started anew, or its machine ended it. Its files are kept; resume it to go on.".to_owned()
                        }
                        (false, _) => {
                            "Its sandbox was lost with its disk. Start another session.".to_owned()
                        }
                    };
                })
                .await?;
                Ok(true)
            }
            (Status::Stopped, Presence::Absent) => {
                self.note(row, Command::Lost { kept: false }, |next| {
                    next.record.message =
                        "Its disk is not on its machine any more. Start another session."
                            .to_owned();
                })
                .await?;
                Ok(true)
            }
            (Status::Stopped | Status::Failed, Presence::Running) => {
                // Nobody is meant to run it: it came up when we had given up on it.
                host.suspend(row.sandbox_id)
                    .await
                    .map_err(crate::Error::internal)?;
                Ok(true)
            }
            (Status::Stopped | Status::Failed, _) => self.look_after_kept(row).await,
            (Status::Provisioning | Status::Deleted, _) => Ok(false),
        }
    }

    /// The sentence when its sandbox ran for its whole life.
    fn life_over(&self, row: &SessionRow) -> Option<String> {
        let life = row.definition.resources.timeout_seconds;
        let standing = self
            .0
            .live
            .standing(row.session_id, self.0.clock.monotonic());
        (life > 0 && standing.age >= Duration::from_secs(life.into())).then(|| {
            format!(
                "Stopped: its life of {} is over. Resume it to go on.",
                in_words(life)
            )
        })
    }

    async fn look_after_running(
        &self,
        host: &Arc<dyn SessionHost>,
        row: &SessionRow,
    ) -> Result<bool> {
        let now = self.0.clock.monotonic();
        let standing = self.0.live.standing(row.session_id, now);
        let idle = row.definition.effective_idle_stop();
        let over = self.life_over(row).or_else(|| {
            (standing.idle >= Duration::from_secs(idle.into())).then(|| {
                format!(
                    "Stopped: for {} there was no command and no terminal input or output. Resume it to go on.",
                    in_words(idle)
                )
            })
        });
        if let Some(text) = over {
            self.wish_ours(row, Command::RequestStop, &text).await?;
            return Ok(true);
        }
        match host.sample(row.sandbox_id).await {
            Ok(sample) => self
                .0
                .live
                .measured(row.session_id, self.0.clock.now(), sample),
            Err(error) => {
                tracing::debug!(session = %row.session_id, cause = %error, "a session could not be measured");
            }
        }
        Ok(false)
    }

    /// A stopped or failed one: counts the time, and removes it when that is enough.
    async fn look_after_kept(&self, row: &SessionRow) -> Result<bool> {
        let now = self.0.clock.monotonic();
        let (seconds, worth_noting) = self.0.live.kept(row.session_id, row.kept_seconds, now);
        let most = row.definition.effective_stopped_delete();
        if seconds >= i64::from(most) {
            let text = format!("Deleted: it was kept for {}.", in_words(most));
            self.wish_ours(row, Command::RequestDelete, &text).await?;
            return Ok(true);
        }
        if worth_noting {
            self.0.store.note_kept(row.session_id, seconds).await?;
        }
        Ok(false)
    }

    /// A wish of ours, written to the audit log as such.
    async fn wish_ours(&self, row: &SessionRow, command: Command, text: &str) -> Result<()> {
        let ctx = OpCtx::system("sessions");
        let action = match command {
            Command::RequestDelete => "session.delete",
            _ => "session.stop",
        };
        self.wish(&ctx, row.clone(), command, action, text)
            .await
            .map(drop)
    }
}
