//! The environment form's inputs as signals.

use leptos::prelude::*;

use crate::draft::{Draft, beside_typed};

macro_rules! inputs {
    ($($(#[$doc:meta])* $field:ident,)*) => {
        /// One signal for each input of [`Draft`].
        #[derive(Clone, Copy)]
        pub struct Inputs { $($(#[$doc])* pub $field: RwSignal<String>,)* }

        impl Inputs {
            /// Starts from a draft.
            pub fn new(draft: &Draft) -> Self {
                Self { $($field: RwSignal::new(draft.$field.clone()),)* }
            }
            /// Fills the form.
            pub fn fill(self, draft: &Draft) {
                $(if self.$field.with_untracked(|now| *now != draft.$field) {
                    self.$field.set(draft.$field.clone());
                })*
            }
            /// Fills the form with an answer to what was asked while it held `sent`; what was typed since stays.
            pub fn fill_beside_typed(self, sent: &Draft, fresh: &Draft) {
                let now = untrack(|| self.draft());
                self.fill(&beside_typed(sent, &now, fresh));
            }
            /// One input by its name in [`Draft`]; empty for other names.
            pub fn get(self, name: &str) -> String {
                match name {
                    $(stringify!($field) => self.$field.get_untracked(),)*
                    _ => String::new(),
                }
            }
            /// Sets one input by its name in [`Draft`]; other names do nothing.
            pub fn set(self, name: &str, value: &str) {
                match name {
                    $(stringify!($field) => self.$field.set(value.to_owned()),)*
                    _ => {}
                }
            }
            /// What the form holds now.
            pub fn draft(self) -> Draft {
                Draft { $($field: self.$field.get(),)* }
            }
        }
    };
}

inputs! {
    /// Name.
    name,
    /// Description.
    description,
    /// Template.
    template,
    /// Provider.
    provider,
    /// Internet access.
    internet,
    /// Rules.
    rules,
    /// Privileged.
    privileged,
    /// vCPU.
    cpu,
    /// GiB.
    memory,
    /// GPU.
    accelerator,
    /// Place.
    placement,
    /// Whole life.
    life,
    /// Disk.
    disk,
    /// Idle stop.
    idle_stop,
    /// Retention.
    stopped_delete,
    /// Computer use.
    computer_use,
    /// Port.
    http_port,
    /// Variables.
    env_vars,
    /// Mounts.
    mounts,
    /// Metadata.
    metadata,
    /// Whether metadata is saved.
    had_metadata,
    /// Script.
    script,
    /// Timeout.
    setup_timeout,
}
