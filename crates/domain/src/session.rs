//! Sessions: states and the moves between them (spec 4-execution, *Sessions*).
//!
//! A member's wish to stop or delete is an intent beside the state, not a state: whoever drives the sandbox may be gone,
//! and the next one finds the wish and fulfils it.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use crate::{
    environment::Definition,
    fingerprint::Fingerprint,
    setup_run::UnknownWord,
    verification::{Usability, Verification},
};

macro_rules! words {
    ($(#[$doc:meta])* $name:ident as $schema:literal { $($(#[$vdoc:meta])* $variant:ident = $word:literal,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
        #[cfg_attr(not(target_arch = "wasm32"), schemars(rename = $schema))]
        pub enum $name { $($(#[$vdoc])* #[serde(rename = $word)] $variant,)* }
        impl $name {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];
            /// The wire word.
            pub const fn as_str(self) -> &'static str { match self { $(Self::$variant => $word),* } }
        }
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result { f.write_str(self.as_str()) }
        }
        impl FromStr for $name {
            type Err = UnknownWord;
            fn from_str(text: &str) -> Result<Self, UnknownWord> {
                Self::ALL.iter().copied().find(|v| v.as_str() == text).ok_or(UnknownWord)
            }
        }
    };
}

words! {
    /// Where a session is.
    Status as "SessionStatus" {
        /// Its sandbox is being made, or started again on its kept disk.
        Provisioning = "provisioning",
        /// Commands can run.
        Running = "running",
        /// Nothing runs; its disk is kept, and it can be resumed.
        Stopped = "stopped",
        /// It could not be started, or was lost with its disk.
        Failed = "failed",
        /// Nothing is left of it.
        Deleted = "deleted",
    }
}

impl Status {
    /// Whether a sandbox of it takes a machine's memory and processor, or is about to.
    pub const fn is_live(self) -> bool {
        matches!(self, Self::Provisioning | Self::Running)
    }
}

words! {
    /// What was asked of a session and is not done yet.
    Wish as "SessionWish" {
        /// End what runs, keep the disk.
        Stop = "stop",
        /// Remove it with its disk.
        Delete = "delete",
    }
}

/// The moving part of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SessionState {
    /// Where it is.
    pub status: Status,
    /// What was asked and is not done yet.
    pub wish: Option<Wish>,
}

/// Something that happens to a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Command {
    /// Its sandbox runs.
    Started,
    /// Its sandbox could not be started; `kept`: its disk is there from an earlier start.
    NotStarted {
        /// Whether the disk is there.
        kept: bool,
    },
    /// Somebody wants it stopped.
    RequestStop,
    /// Its sandbox was stopped and the disk kept.
    Suspended,
    /// Its sandbox ended by itself or with its machine; `kept`: its disk is still there.
    Lost {
        /// Whether the disk is there.
        kept: bool,
    },
    /// Somebody wants it back.
    Resume,
    /// Somebody wants it gone, or its workspace was kept long enough.
    RequestDelete,
    /// Nothing of it is left on its machine.
    Destroyed,
}

/// Why a move is not made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Refusal {
    /// There is no such move from here.
    #[error("a session that is {0} cannot do this")]
    Illegal(Status),
    /// It is on its way to being stopped or deleted.
    #[error("a {0} was asked for and is not done yet")]
    Pending(Wish),
}

impl SessionState {
    /// Of a session just admitted.
    pub const fn admitted() -> Self {
        Self {
            status: Status::Provisioning,
            wish: None,
        }
    }

    const fn at(self, status: Status) -> Self {
        Self { status, ..self }
    }

    /// After the sandbox ended: a stop is done by that, a deletion is not.
    const fn ended(self, kept: bool) -> Self {
        Self {
            status: if kept {
                Status::Stopped
            } else {
                Status::Failed
            },
            wish: match self.wish {
                Some(Wish::Delete) => Some(Wish::Delete),
                _ => None,
            },
        }
    }

    /// The state after `command`. Wishes that are there already, and what is so already, change nothing.
    ///
    /// # Errors
    /// [`Refusal`] where no such move exists.
    pub const fn decide(self, command: Command) -> Result<Self, Refusal> {
        use Command as C;
        use Status as S;
        match (self.status, command) {
            (S::Deleted, C::RequestDelete | C::Destroyed) => Ok(self),
            (S::Deleted, _) => Err(Refusal::Illegal(S::Deleted)),
            (S::Provisioning, C::Started) => Ok(self.at(S::Running)),
            (S::Provisioning, C::NotStarted { kept }) => Ok(self.ended(kept)),
            (S::Provisioning | S::Running, C::Suspended) => Ok(self.ended(true)),
            (S::Provisioning | S::Running, C::Lost { kept }) => Ok(self.ended(kept)),
            // The disk of a stopped session went away with its machine.
            (S::Stopped, C::Lost { kept: false }) => Ok(self.ended(false)),
            (S::Provisioning | S::Running, C::RequestStop) => Ok(Self {
                wish: match self.wish {
                    None => Some(Wish::Stop),
                    wish => wish,
                },
                ..self
            }),
            (S::Stopped, C::RequestStop) => Ok(self),
            (S::Stopped | S::Provisioning | S::Running, C::Resume) => match self.wish {
                Some(wish) => Err(Refusal::Pending(wish)),
                None if matches!(self.status, S::Stopped) => Ok(self.at(S::Provisioning)),
                None => Ok(self),
            },
            (_, C::RequestDelete) => Ok(Self {
                wish: Some(Wish::Delete),
                ..self
            }),
            (status, C::Destroyed) => match self.wish {
                Some(Wish::Delete) => Ok(Self {
                    status: S::Deleted,
                    wish: None,
                }),
                _ => Err(Refusal::Illegal(status)),
            },
            (status, _) => Err(Refusal::Illegal(status)),
        }
    }

    /// Whether commands can run.
    ///
    /// # Errors
    /// [`Refusal`] where they cannot.
    pub const fn usable(self) -> Result<(), Refusal> {
        match (self.status, self.wish) {
            (Status::Running, None) => Ok(()),
            (Status::Running, Some(wish)) => Err(Refusal::Pending(wish)),
            (status, _) => Err(Refusal::Illegal(status)),
        }
    }
}

/// Why no session starts from an environment (spec 1-domain, *Usable* and *Access precondition*).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Barred {
    /// Its verdict does not allow it; what mends that.
    Verdict(Usability),
    /// It is privileged and has a network policy: viewable and editable, but not startable.
    PrivilegedWithPolicy,
}

/// Whether a session may start from an environment as it is saved now; `current` is its fingerprint, secret variables
/// included.
///
/// # Errors
/// Why not.
pub fn startable(
    definition: &Definition,
    verdict: &Verification,
    current: &Fingerprint,
) -> Result<(), Barred> {
    if definition.privileged && !definition.network_policy.is_unrestricted() {
        return Err(Barred::PrivilegedWithPolicy);
    }
    match verdict.usability(current) {
        Usability::Usable => Ok(()),
        other => Err(Barred::Verdict(other)),
    }
}
