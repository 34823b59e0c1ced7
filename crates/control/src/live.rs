//! Following: readers get rows by cursor at their own pace; bells only wake them (architecture, invariant 4). A slow
//! reader is simply further behind: nothing is buffered for it and nothing dropped.

use std::{
    collections::{BTreeMap, VecDeque},
    pin::Pin,
    time::Duration,
};

use domain::{
    ids::{EnvironmentId, SetupRunId},
    roles::Action,
    setup_run::LogLine,
};
use futures::{Stream, stream};
use tokio::sync::watch;
use wire::console::{EnvironmentItem, Frame, TableNews};

use crate::{
    Caller, Control, Error, OpCtx, Result, Via, console,
    ports::{Topic, rows::SetupRunRow},
};

/// Frames of a followed run.
pub type Frames = Pin<Box<dyn Stream<Item = Frame> + Send>>;
/// News of a followed table.
pub type News = Pin<Box<dyn Stream<Item = TableNews> + Send>>;

/// Lines of a frame.
const LINES_PER_FRAME: u32 = 500;
/// Failed looks in a row after which a follower gives up; its reader calls again with its cursor.
const FAILURES_MAX: u32 = 5;

impl Control {
    /// Follows a run from the line after `after`: its state first, then lines as they are written and every change of
    /// the run, until [`Frame::End`]. Dropping the stream has no effect on the run. A reader that comes back and whose
    /// last line may have been open asks from one line before it, or by [`Control::follow_setup_run_from`].
    pub async fn follow_setup_run(
        &self,
        ctx: OpCtx,
        environment: EnvironmentId,
        run: SetupRunId,
        after: u64,
    ) -> Result<Frames> {
        let seen = Seen {
            seq: after,
            mark: None,
        };
        self.follow_setup_run_from(ctx, environment, run, seen)
            .await
    }

    /// The same for a reader that comes back and knows what it has of its last line: that line is sent again if it
    /// changed meanwhile.
    pub async fn follow_setup_run_from(
        &self,
        ctx: OpCtx,
        environment: EnvironmentId,
        run: SetupRunId,
        seen: Seen,
    ) -> Result<Frames> {
        // Listened to before the first look, so that nothing falls between the two.
        let bell = self.0.bell.listen(Topic::Run(run));
        self.load_run(&ctx, environment, run, Action::ReadEnvironments)
            .await?;
        let now = self.0.clock.monotonic();
        let follower = Follower {
            control: self.clone(),
            ctx,
            environment,
            run,
            bell,
            cursor: Cursor {
                after: seen.seq,
                last: seen.mark.map(Known::Mark),
            },
            shown: None,
            ready: VecDeque::new(),
            over: false,
            failures: 0,
            checked: now,
            spoke: now,
        };
        Ok(Box::pin(stream::unfold(follower, |mut follower| async {
            follower.next().await.map(|frame| (frame, follower))
        })))
    }

    /// Whether a follower may go on: its member is still there and may still read.
    async fn still_may(&self, ctx: &OpCtx) -> Result<()> {
        self.still_may_do(ctx, Action::ReadEnvironments).await
    }

    /// Whether somebody who holds something open may go on doing this.
    pub(crate) async fn still_may_do(&self, ctx: &OpCtx, action: Action) -> Result<()> {
        let Caller::Member(member) = &ctx.caller else {
            return Err(Error::unauthorized());
        };
        let user = match self.0.store.user(member.user_id).await? {
            Some(user) if user.removed_at.is_none() => user,
            _ => return Err(Error::unauthorized()),
        };
        let store = &self.0.store;
        let now = self.0.clock.now();
        let valid = match member.via {
            Via::ApiKey(id) => {
                let owner = Some(member.user_id);
                let keys = store.api_keys(member.organization_id, owner).await?;
                keys.iter().any(|key| {
                    key.api_key_id == id && key.expires_at.is_none_or(|expires| expires > now)
                })
            }
            Via::Console(sign_in) => {
                let there = match sign_in.browser {
                    Some(hash) => store.web_session(&hex::encode(hash), now).await?.is_some(),
                    None => true,
                };
                there && user.session_epoch == sign_in.epoch
            }
        };
        if !valid {
            return Err(Error::unauthorized());
        }
        if domain::roles::permits(user.role.min(member.role), action) {
            Ok(())
        } else {
            Err(Error::forbidden(action))
        }
    }
}

/// What a reader has of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seen {
    /// Number of its last line.
    pub seq: u64,
    /// What [`mark`] gives for that line's text, where the line may have been open.
    pub mark: Option<u32>,
}

/// A short stand-in for a line's text, the same in every version and process (FNV-1a).
pub fn mark(text: &str) -> u32 {
    text.bytes().fold(0x811c_9dc5, |hash, byte| {
        (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    })
}

/// What the reader has of its last line.
enum Known {
    Text(String),
    Mark(u32),
}

impl Known {
    fn is(&self, text: &str) -> bool {
        match self {
            Self::Text(known) => known == text,
            Self::Mark(known) => *known == mark(text),
        }
    }
}

/// Where a reader is in a log.
struct Cursor {
    after: u64,
    /// Of line `after`, where we know it: an open line is sent again when it changed.
    last: Option<Known>,
}

impl Cursor {
    /// Where to read on from: the last line again while its text is known, to see whether it grew.
    fn read_from(&self) -> u64 {
        if self.last.is_some() {
            self.after.saturating_sub(1)
        } else {
            self.after
        }
    }

    /// What of a page is news; moves on.
    fn take(&mut self, mut page: Vec<LogLine>) -> Vec<LogLine> {
        if let (Some(first), Some(known)) = (page.first(), &self.last)
            && first.seq == self.after
            && known.is(&first.text)
        {
            page.remove(0);
        }
        if let Some(last) = page.last() {
            self.after = last.seq;
            self.last = Some(Known::Text(last.text.clone()));
        }
        page
    }
}

/// What was last shown of a run: when any of it changes, the run is shown again.
#[derive(PartialEq, Eq, Clone, Copy)]
struct Shown {
    version: i64,
    truncated: bool,
    removed: bool,
}

fn shown(row: &SetupRunRow) -> Shown {
    Shown {
        version: row.version,
        truncated: row.log.truncated,
        removed: row.log.removed_at.is_some(),
    }
}

struct Follower {
    control: Control,
    ctx: OpCtx,
    environment: EnvironmentId,
    run: SetupRunId,
    bell: watch::Receiver<u64>,
    cursor: Cursor,
    shown: Option<Shown>,
    ready: VecDeque<Frame>,
    over: bool,
    failures: u32,
    /// When access was last checked, monotonic.
    checked: Duration,
    /// When the last frame was made, monotonic.
    spoke: Duration,
}

impl Follower {
    async fn next(&mut self) -> Option<Frame> {
        loop {
            if let Some(frame) = self.ready.pop_front() {
                self.spoke = self.control.0.clock.monotonic();
                return Some(frame);
            }
            if self.over {
                return None;
            }
            self.bell.mark_unchanged();
            match self.look().await {
                Ok(()) => self.failures = 0,
                Err(error) => self.failed(&error).await,
            }
            if self.ready.is_empty() && !self.over {
                self.rest().await;
            }
        }
    }

    /// Reads the rows and makes frames of what is new.
    async fn look(&mut self) -> Result<()> {
        let now = self.control.0.clock.monotonic();
        if now.saturating_sub(self.checked) >= self.control.0.config.access_recheck {
            self.control.still_may(&self.ctx).await?;
            self.checked = now;
        }
        // The state before the lines: when it says that the run has ended, the lines are all there.
        let (_, row) = self
            .control
            .load_run(
                &self.ctx,
                self.environment,
                self.run,
                Action::ReadEnvironments,
            )
            .await?;
        let ended = row.state.status.is_terminal();
        // The first look, and changes of a run that goes on, are shown before the lines. The end comes after them.
        if self.shown.is_none() || (!ended && self.shown != Some(shown(&row))) {
            self.show(&row).await?;
        }
        let page = self
            .control
            .0
            .store
            .log_lines(self.run, self.cursor.read_from(), LINES_PER_FRAME)
            .await?
            .lines;
        let full = page.len() >= LINES_PER_FRAME as usize;
        let news = self.cursor.take(page);
        if !news.is_empty() {
            self.ready.push_back(Frame::Lines(news));
        }
        if full || !ended {
            return Ok(());
        }
        if self.shown != Some(shown(&row)) {
            self.show(&row).await?;
        }
        self.ready.push_back(Frame::End);
        self.over = true;
        Ok(())
    }

    async fn show(&mut self, row: &SetupRunRow) -> Result<()> {
        let view = self.control.view_of(&self.ctx, row).await?;
        self.ready.push_back(Frame::State(Box::new(view)));
        self.shown = Some(shown(row));
        Ok(())
    }

    async fn failed(&mut self, error: &Error) {
        self.failures += 1;
        if error.retryable() && self.failures < FAILURES_MAX {
            let control = self.control.clone();
            control.0.clock.sleep(control.0.config.backup_poll).await;
            return;
        }
        if !error.chain().is_empty() {
            tracing::error!(request_id = %self.ctx.request_id, chain = ?error.chain(), "a follower failed");
        }
        self.ready
            .push_back(Frame::Stopped(error.api().message.clone()));
        self.over = true;
    }

    /// Waits for a bell, the backup poll, or the time for a beat.
    async fn rest(&mut self) {
        let control = self.control.clone();
        let beat = control.0.config.beat_after;
        let silent = control.0.clock.monotonic().saturating_sub(self.spoke);
        if silent >= beat {
            self.ready.push_back(Frame::Beat);
            return;
        }
        control.wait(&mut self.bell, beat - silent).await;
    }
}

impl Control {
    /// Follows the environments table: rows that changed since the call.
    pub async fn follow_environments(&self, ctx: OpCtx) -> Result<News> {
        let bell = self.0.bell.listen(Topic::Environments);
        let known = self.table_items(&ctx).await?;
        let follower = TableFollower {
            control: self.clone(),
            ctx,
            bell,
            known: known
                .into_iter()
                .map(|item| (item.environment_id, item))
                .collect(),
        };
        Ok(Box::pin(stream::unfold(follower, |mut follower| async {
            follower.next().await.map(|news| (news, follower))
        })))
    }

    async fn table_items(&self, ctx: &OpCtx) -> Result<Vec<EnvironmentItem>> {
        let member = ctx.require(Action::ReadEnvironments)?;
        let rows = self.0.store.environments(member.organization_id).await?;
        Ok(rows.iter().map(console::item).collect())
    }
}

struct TableFollower {
    control: Control,
    ctx: OpCtx,
    bell: watch::Receiver<u64>,
    known: BTreeMap<EnvironmentId, EnvironmentItem>,
}

impl TableFollower {
    /// The next news; an empty one is a beat. Ends when the viewer may not look any more or the database fails: the page
    /// calls again.
    async fn next(&mut self) -> Option<TableNews> {
        let control = self.control.clone();
        let config = &control.0.config;
        let rung = tokio::select! {
            rung = self.bell.changed() => rung.is_ok(),
            () = control.0.clock.sleep(config.beat_after) => false,
        };
        if rung {
            // Bells come in bursts: one look answers them together.
            control.0.clock.sleep(config.table_news_after).await;
        }
        self.bell.mark_unchanged();
        control.still_may(&self.ctx).await.ok()?;
        let items = control.table_items(&self.ctx).await.ok()?;
        let now: BTreeMap<EnvironmentId, EnvironmentItem> = items
            .into_iter()
            .map(|item| (item.environment_id, item))
            .collect();
        let news = TableNews {
            changed: now
                .values()
                .filter(|item| self.known.get(&item.environment_id) != Some(*item))
                .cloned()
                .collect(),
            gone: self
                .known
                .keys()
                .filter(|id| !now.contains_key(id))
                .copied()
                .collect(),
        };
        self.known = now;
        Some(news)
    }
}

#[cfg(test)]
mod tests {
    use domain::{setup_run::Stream, timestamp::Timestamp};

    use super::*;

    fn line(seq: u64, text: &str) -> LogLine {
        LogLine {
            seq,
            stream: Stream::Stdout,
            line: None,
            text: text.to_owned(),
            at: Timestamp::from_micros(0),
        }
    }

    #[test]
    fn an_open_line_is_sent_again_only_when_it_grew() {
        let mut cursor = Cursor {
            after: 0,
            last: None,
        };
        assert_eq!(cursor.take(vec![line(1, "a"), line(2, "wor")]).len(), 2);
        assert_eq!(cursor.read_from(), 1);
        assert!(cursor.take(vec![line(2, "wor")]).is_empty());
        assert_eq!(cursor.take(vec![line(2, "work")]), vec![line(2, "work")]);
        assert_eq!(
            cursor.take(vec![line(2, "working"), line(3, "b")]),
            vec![line(2, "working"), line(3, "b")]
        );
        assert_eq!(
            cursor.take(vec![line(3, "b"), line(4, "c")]),
            vec![line(4, "c")]
        );
    }

    #[test]
    fn a_reader_that_comes_back_with_a_mark_gets_its_line_again_only_if_it_changed() {
        let came_back = || Cursor {
            after: 2,
            last: Some(Known::Mark(mark("50 %"))),
        };
        assert!(came_back().take(vec![line(2, "50 %")]).is_empty());
        assert_eq!(came_back().take(vec![line(2, "51 %")]).len(), 1);
        assert_eq!(
            came_back().take(vec![line(2, "50 %"), line(3, "b")]),
            vec![line(3, "b")]
        );
        assert_eq!(mark(""), 0x811c_9dc5, "never another for what clients hold");
    }
}
