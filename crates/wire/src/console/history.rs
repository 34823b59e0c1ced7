//! The history page, and what others saved while a form was open.

use domain::{ids::EnvironmentId, issues::Issue, timestamp::Timestamp};
use serde::{Deserialize, Serialize};

use super::{FieldChange, May, Revision, VerdictEffect};
use crate::managed_agents::Environment;

/// A page of the history.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HistoryPage {
    /// The environment.
    pub environment_id: EnvironmentId,
    /// Its name.
    pub name: String,
    /// The present revision: what a restore says that its reader saw.
    pub revision: i64,
    /// Newest first.
    pub revisions: Vec<Revision>,
    /// Pass as `before` for the next page; `None`: this is the last.
    pub older: Option<i64>,
    /// What going back to the chosen revision would change.
    pub chosen: Option<RestorePreview>,
    /// What the viewer may do.
    pub may: May,
}

/// What going back to a saved definition would change.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RestorePreview {
    /// Which.
    pub revision: i64,
    /// Who saved it, for people.
    pub by: String,
    /// When.
    pub at: Timestamp,
    /// Whether it is today's.
    pub current: bool,
    /// `before` is today's value, `after` the one that comes back.
    pub changes: Vec<FieldChange>,
    /// What it does to the verdict; `None`: nothing.
    pub effect: Option<VerdictEffect>,
    /// Why it cannot come back: what the deployment does not offer any more.
    pub refused: Vec<Issue>,
}

/// What was saved since a form was opened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MeanwhileSaved {
    /// The present revision.
    pub revision: i64,
    /// What the form was made from.
    pub base: Environment,
    /// What is saved now.
    pub present: Environment,
    /// The fields that others changed, with who and when.
    pub changes: Vec<FieldChange>,
}
