//! Compute sizes and accelerators (spec 1-domain, *Compute*).

use serde::{Deserialize, Serialize};

use crate::{environment::or_default, limits};

mod parse;
pub(crate) use parse::read;

/// What a sandbox is given. 0 stands for the default.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
pub struct Resources {
    /// Thousandths of a core; 0 = 2,000.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cpu_milli: u32,
    /// MiB; 0 = 4,096.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub memory_mib: u32,
    /// A GPU; exclusive of `cpu_milli` and `memory_mib`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accelerator: Option<Accelerator>,
    /// Where it runs, where the deployment offers places.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placement: Option<Placement>,
    /// The sandbox's whole life in seconds; 0 = unbounded.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub timeout_seconds: u32,
}

#[allow(
    clippy::trivially_copy_pass_by_ref,
    reason = "the shape serde asks for"
)]
fn is_zero(value: &u32) -> bool {
    *value == 0
}

impl Resources {
    /// CPU with the default resolved; an accelerator comes with 8 vCPU.
    pub fn effective_cpu_milli(&self) -> u32 {
        if self.accelerator.is_some() {
            return limits::ACCELERATOR_CPU_MILLI;
        }
        or_default(self.cpu_milli, limits::CPU_MILLI_DEFAULT)
    }
    /// Memory in MiB with the default resolved; an accelerator comes with 32 GiB.
    pub fn effective_memory_mib(&self) -> u32 {
        if self.accelerator.is_some() {
            return limits::ACCELERATOR_MEMORY_MIB;
        }
        or_default(self.memory_mib, limits::MEMORY_MIB_DEFAULT)
    }
}

/// A GPU request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
pub struct Accelerator {
    /// The model's name in the deployment's catalog.
    pub name: String,
    /// Always `gpu` where given.
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// 0 or 1 where given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u32>,
}

/// Where a sandbox runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(not(target_arch = "wasm32"), derive(schemars::JsonSchema))]
pub struct Placement {
    /// Exactly one provider.
    pub providers: Vec<String>,
}

/// The machine sizes a deployment offers: any CPU and memory up to a machine's own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sizes {
    /// Each machine kind's most; a request fits when one machine has both.
    pub machines: Vec<Machine>,
}

impl Sizes {
    /// Whether one machine offers this CPU and memory together.
    pub fn offers(&self, cpu_milli: u32, memory_mib: u32) -> bool {
        self.machines
            .iter()
            .any(|machine| cpu_milli <= machine.cpu_milli && memory_mib <= machine.memory_mib)
    }

    /// The offered size that is nearest to a wish: what was asked for, cut to the machine that comes closest to it,
    /// CPU and memory counting alike. `None` when there is no machine.
    pub fn nearest(&self, cpu_milli: u32, memory_mib: u32) -> Option<Machine> {
        let cpu = cpu_milli.clamp(limits::CPU_MILLI_MIN, limits::CPU_MILLI_MAX);
        let memory = memory_mib.clamp(limits::MEMORY_MIB_MIN, limits::MEMORY_MIB_MAX);
        self.machines
            .iter()
            .map(|machine| Machine {
                cpu_milli: cpu.min(machine.cpu_milli),
                memory_mib: memory.min(machine.memory_mib),
            })
            .max_by_key(|size| {
                // Shares of what was asked for, in thousandths.
                u64::from(size.cpu_milli) * 1_000 / u64::from(cpu)
                    + u64::from(size.memory_mib) * 1_000 / u64::from(memory)
            })
    }
}

/// `2 vCPU` or `0.25 vCPU`.
pub fn show_cpu(cpu_milli: u32) -> String {
    format!("{} vCPU", f64::from(cpu_milli) / 1_000.0)
}

/// `4 GiB`, or `1300 MiB` where it is no multiple of half a GiB.
pub fn show_memory(memory_mib: u32) -> String {
    if memory_mib.is_multiple_of(512) {
        format!("{} GiB", f64::from(memory_mib) / 1_024.0)
    } else {
        format!("{memory_mib} MiB")
    }
}

impl std::fmt::Display for Machine {
    /// Such as `8 vCPU with 16 GiB (cpu_milli 8000, memory_mib 16384)`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{} with {} (cpu_milli {}, memory_mib {})",
            show_cpu(self.cpu_milli),
            show_memory(self.memory_mib),
            self.cpu_milli,
            self.memory_mib
        )
    }
}

/// One kind of machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// Thousandths of a core that one sandbox may have.
    pub cpu_milli: u32,
    /// MiB that one sandbox may have.
    pub memory_mib: u32,
}

/// A one-click size of the console.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Preset {
    /// The button's label.
    pub name: &'static str,
    /// Thousandths of a core.
    pub cpu_milli: u32,
    /// MiB.
    pub memory_mib: u32,
}

/// The console's presets (spec 1-domain, *Compute*).
pub const PRESETS: [Preset; 4] = [
    Preset {
        name: "Light",
        cpu_milli: 1_000,
        memory_mib: 2_048,
    },
    Preset {
        name: "Standard",
        cpu_milli: 2_000,
        memory_mib: 4_096,
    },
    Preset {
        name: "Heavy",
        cpu_milli: 4_000,
        memory_mib: 8_192,
    },
    Preset {
        name: "Large",
        cpu_milli: 8_000,
        memory_mib: 16_384,
    },
];
