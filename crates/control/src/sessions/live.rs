//! What this process remembers of the sessions on its worker. A restart forgets it, and may: the sandboxes end with the
//! worker, and time that was not counted only makes us keep a workspace longer. All of it is measured on the monotonic
//! clock, so that a jump of the wall clock stops and deletes nothing.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    sync::Mutex,
    time::Duration,
};

use domain::{ids::SessionId, limits, process::Sample, timestamp::Timestamp};
use wire::sessions::Usage;

use super::{http_door::Doors, terminals::Terminals};
use crate::accounts::lock;

/// Everything of this kind.
#[derive(Default)]
pub(crate) struct Live {
    watched: Mutex<HashMap<SessionId, Watch>>,
    driving: Mutex<Driving>,
    pub(super) terminals: Terminals,
    pub(super) doors: Doors,
}

/// One session.
#[derive(Default)]
struct Watch {
    /// Since when its sandbox runs.
    running_since: Option<Duration>,
    /// The last command, terminal input or terminal output.
    active_at: Duration,
    /// Commands that run.
    commands: usize,
    /// What it used in the last hour, oldest first, with the raw sample that the next one is compared with.
    usages: VecDeque<Usage>,
    last: Option<(Timestamp, Sample)>,
    /// Since when it is stopped as far as this process saw, and the seconds before that.
    kept: Option<Kept>,
}

#[derive(Clone, Copy)]
struct Kept {
    since: Duration,
    before: i64,
    /// Seconds as last written down.
    noted: i64,
}

/// Sessions that a task is at work on, and those that changed meanwhile.
#[derive(Default)]
struct Driving {
    at: HashSet<SessionId>,
    again: HashSet<SessionId>,
}

/// What the watch says about a running session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Standing {
    /// For how long nothing happened; zero while a command runs.
    pub(super) idle: Duration,
    /// For how long its sandbox runs.
    pub(super) age: Duration,
}

impl Live {
    /// Whether the caller is to drive this session now; if another task does, it will look once more.
    pub(super) fn begin_driving(&self, id: SessionId) -> bool {
        let mut driving = lock(&self.driving);
        if driving.at.insert(id) {
            return true;
        }
        driving.again.insert(id);
        false
    }

    /// Whether the task that drives this session is done; if not, it has to look once more.
    pub(super) fn end_driving(&self, id: SessionId) -> bool {
        let mut driving = lock(&self.driving);
        if driving.again.remove(&id) {
            return false;
        }
        driving.at.remove(&id);
        true
    }

    pub(super) fn is_driven(&self, id: SessionId) -> bool {
        lock(&self.driving).at.contains(&id)
    }

    /// Its sandbox came up just now.
    pub(super) fn came_up(&self, id: SessionId, now: Duration) {
        let mut watched = lock(&self.watched);
        let watch = watched.entry(id).or_default();
        *watch = Watch {
            running_since: Some(now),
            active_at: now,
            ..Watch::default()
        };
    }

    /// Its sandbox ended.
    pub(super) fn went_down(&self, id: SessionId) {
        lock(&self.watched).remove(&id);
    }

    /// Forgets sessions that are not among these.
    pub(super) fn retain(&self, known: &HashSet<SessionId>) {
        lock(&self.watched).retain(|id, _| known.contains(id));
    }

    /// Something happened in it.
    pub(super) fn touch(&self, id: SessionId, now: Duration) {
        if let Some(watch) = lock(&self.watched).get_mut(&id) {
            watch.active_at = now;
        }
    }

    /// A command begins; false: there are too many.
    pub(super) fn begin_command(&self, id: SessionId, now: Duration) -> bool {
        let mut watched = lock(&self.watched);
        let watch = watched.entry(id).or_default();
        if watch.commands >= limits::SESSION_COMMANDS_MAX {
            return false;
        }
        watch.commands += 1;
        watch.active_at = now;
        true
    }

    /// A command ended.
    pub(super) fn end_command(&self, id: SessionId, now: Duration) {
        if let Some(watch) = lock(&self.watched).get_mut(&id) {
            watch.commands = watch.commands.saturating_sub(1);
            watch.active_at = now;
        }
    }

    /// How a running session stands. One that this process has not seen before begins now.
    pub(super) fn standing(&self, id: SessionId, now: Duration) -> Standing {
        let mut watched = lock(&self.watched);
        let watch = watched.entry(id).or_default();
        let since = *watch.running_since.get_or_insert_with(|| {
            watch.active_at = now;
            now
        });
        Standing {
            idle: if watch.commands > 0 {
                Duration::ZERO
            } else {
                now.saturating_sub(watch.active_at)
            },
            age: now.saturating_sub(since),
        }
    }

    /// Adds a measurement.
    pub(super) fn measured(&self, id: SessionId, at: Timestamp, sample: Sample) {
        let mut watched = lock(&self.watched);
        let Some(watch) = watched.get_mut(&id) else {
            return;
        };
        watch.usages.push_back(Usage::of(watch.last, at, sample));
        watch.last = Some((at, sample));
        while watch.usages.len() > limits::SAMPLES_MAX {
            watch.usages.pop_front();
        }
    }

    /// The newest measurement.
    pub(super) fn usage(&self, id: SessionId) -> Option<Usage> {
        lock(&self.watched).get(&id)?.usages.back().copied()
    }

    /// All of them, oldest first.
    pub(super) fn usages(&self, id: SessionId) -> Vec<Usage> {
        lock(&self.watched)
            .get(&id)
            .map(|watch| watch.usages.iter().copied().collect())
            .unwrap_or_default()
    }

    /// For how many seconds a stopped session has been kept, when `before` of them were written down; and whether that
    /// is worth writing down again.
    pub(super) fn kept(&self, id: SessionId, before: i64, now: Duration) -> (i64, bool) {
        let mut watched = lock(&self.watched);
        let watch = watched.entry(id).or_default();
        let kept = watch.kept.get_or_insert(Kept {
            since: now,
            before,
            noted: before,
        });
        let counted = i64::try_from(now.saturating_sub(kept.since).as_secs()).unwrap_or(i64::MAX);
        let seconds = kept.before.saturating_add(counted);
        let worth = seconds - kept.noted >= NOTE_EVERY_SECONDS;
        if worth {
            kept.noted = seconds;
        }
        (seconds, worth)
    }
}

/// Kept time is written down this often: what a restart forgets only makes us keep a workspace longer.
const NOTE_EVERY_SECONDS: i64 = 300;

/// Counts a command while it lives.
pub(super) struct CommandGuard {
    pub(super) control: crate::Control,
    pub(super) id: SessionId,
}

impl CommandGuard {
    /// `None`: too many run already.
    pub(super) fn begin(control: &crate::Control, id: SessionId) -> Option<Self> {
        let now = control.0.clock.monotonic();
        control.0.live.begin_command(id, now).then(|| Self {
            control: control.clone(),
            id,
        })
    }
}

impl Drop for CommandGuard {
    fn drop(&mut self) {
        let now = self.control.0.clock.monotonic();
        self.control.0.live.end_command(self.id, now);
    }
}
