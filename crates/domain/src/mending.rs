//! Limits that a failed run asks to be raised, and by how much: the console's *Raise the timeout*, *Raise the disk* and
//! *Raise the memory* (spec 3-console, *Setup test panel*).

use serde::{Deserialize, Serialize};

use crate::{compute::Sizes, environment::Definition, limits, setup_run::HintCode};

/// A limit with its next sensible value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "limit", content = "to")]
pub enum Raise {
    /// The setup timeout, seconds.
    Timeout(u32),
    /// The workspace disk, GiB.
    Disk(u32),
    /// The memory, MiB.
    Memory(u32),
}

/// What would mend a failure with this hint; `None`: no larger limit would, or there is none larger.
pub fn raise(hint: HintCode, definition: &Definition, sizes: &Sizes) -> Option<Raise> {
    match hint {
        HintCode::Timeout => {
            let now = definition.effective_setup_timeout();
            // Twice as long, and at least a minute.
            let next = (now * 2).clamp(60, limits::SETUP_TIMEOUT_MAX);
            (next > now).then_some(Raise::Timeout(next))
        }
        HintCode::NoSpace => {
            let now = definition.effective_disk_gi();
            let next = (now * 2).min(limits::DISK_GI_MAX);
            (next > now).then_some(Raise::Disk(next))
        }
        HintCode::OutOfMemory if definition.resources.accelerator.is_none() => {
            let now = definition.resources.effective_memory_mib();
            let cpu = definition.resources.effective_cpu_milli();
            let most = sizes
                .machines
                .iter()
                .filter(|machine| machine.cpu_milli >= cpu)
                .map(|machine| machine.memory_mib)
                .max()?;
            let next = (now * 2).min(limits::MEMORY_MIB_MAX).min(most);
            (next > now).then_some(Raise::Memory(next))
        }
        _ => None,
    }
}

impl Raise {
    /// Whether a definition has this much already.
    pub fn is_done(self, definition: &Definition) -> bool {
        match self {
            Self::Timeout(seconds) => definition.effective_setup_timeout() >= seconds,
            Self::Disk(gi) => definition.effective_disk_gi() >= gi,
            Self::Memory(mib) => definition.resources.effective_memory_mib() >= mib,
        }
    }

    /// The definition with the limit raised.
    pub fn apply(self, definition: &Definition) -> Definition {
        let mut next = definition.clone();
        match self {
            Self::Timeout(seconds) => next.setup.timeout_seconds = seconds,
            Self::Disk(gi) => next.pvc_size_gi = gi,
            Self::Memory(mib) => next.resources.memory_mib = mib,
        }
        next
    }
}
