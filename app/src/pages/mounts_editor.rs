//! The mounts of an environment: as a list, or without scripting as text. The text is what is posted.

use leptos::{html, prelude::*};

use crate::{
    components::{
        AddRow, Errors, FieldError, Icon, LineText, LinesField, RowButton, Rows, basics::alive,
        focus_button,
    },
    draft::{MountLine, parse_mounts, show_mounts},
};

/// The choice of a row that is a file from the web.
const FILE: &str = "https";
const REMOVE: &str = "Remove";

/// The editor.
#[component]
pub fn MountsEditor(
    /// The text.
    mounts: RwSignal<String>,
    /// Names of the volumes that the deployment offers.
    volumes: Vec<String>,
    /// Only to read.
    readonly: bool,
) -> impl IntoView {
    let alive = alive();
    let lines = LineText::new(mounts);
    let errors = use_context::<Errors>();
    // In the list, what concerns one mount is said there.
    let error = Signal::derive(move || {
        errors?.0.with(|error| {
            let error = error.as_ref()?;
            if !alive.get() {
                return error.field("mounts");
            }
            let at = |(at, message): (String, String)| (at == "mounts").then_some(message);
            error.issues().into_iter().find_map(at)
        })
    });
    let hint = if volumes.is_empty() {
        "A file of at most 256 MiB is fetched from its https:// address whenever a sandbox starts, and appears under /workspace/ or /mnt/, to be read only.".to_owned()
    } else {
        format!(
            "A volume of this deployment ({}), or a file of at most 256 MiB that is fetched from its https:// address whenever a sandbox starts, appears under /workspace/ or /mnt/. Saved images hold none of it.",
            volumes.join(", ")
        )
    };
    let volumes = StoredValue::new(volumes);
    view! {
        <div class="field">
            <p class="field-hint" id="mounts-hint">
                {hint}
            </p>
            <LinesField
                lines
                id="mounts"
                name="draft[mounts]"
                label="Mounts, one a line"
                rows=4
                placeholder="volume:NAME /workspace/data\nhttps://example.com/model.bin /workspace/model.bin"
                hint="One a line: volume:NAME or an https:// address, a blank, and a path."
                described_by="mounts-error mounts-hint"
                readonly
                hidden=alive
            />
            {move || {
                alive
                    .get()
                    .then(|| {
                        lines.track_outside();
                        view! { <MountList lines volumes readonly /> }
                    })
            }}
            <FieldError id="mounts-error".to_owned() message=error />
        </div>
    }
    .into_any()
}

#[derive(Clone, Copy)]
struct Inputs {
    /// `volume:NAME`, or [`FILE`].
    kind: RwSignal<String>,
    address: RwSignal<String>,
    path: RwSignal<String>,
}

impl Inputs {
    fn new(line: MountLine) -> Self {
        let (kind, address) = if line.source.starts_with("volume:") {
            (line.source, String::new())
        } else {
            (FILE.to_owned(), line.source)
        };
        Self {
            kind: RwSignal::new(kind),
            address: RwSignal::new(address),
            path: RwSignal::new(line.path),
        }
    }

    fn line(self) -> MountLine {
        let kind = self.kind.get_untracked();
        MountLine {
            source: if kind == FILE {
                self.address.get_untracked()
            } else {
                kind
            },
            path: self.path.get_untracked(),
        }
    }
}

#[component]
fn MountList(lines: LineText, volumes: StoredValue<Vec<String>>, readonly: bool) -> impl IntoView {
    let saved = lines.text.with_untracked(|text| parse_mounts(text));
    let rows = Rows::new(saved, Inputs::new);
    let entries = rows.entries;
    let write = move || {
        let mounts: Vec<MountLine> = entries
            .with_untracked(|entries| entries.iter().map(|entry| entry.row.line()).collect());
        lines.write(show_mounts(&mounts));
    };
    let list: NodeRef<html::Ol> = NodeRef::new();
    let remove = move |key: usize| {
        let at = rows.remove(key);
        write();
        focus_button(list, at, REMOVE);
    };
    let errors = use_context::<Errors>();
    // What was refused of a row, by its place among those that were sent.
    let refused = move |key: usize, field: &'static str| {
        Signal::derive(move || {
            let at = entries.with(|entries| {
                let mut sent = entries
                    .iter()
                    .filter(|entry| entry.row.line() != MountLine::default());
                sent.position(|entry| entry.key == key)
            })?;
            let path = format!("mounts[{at}]{field}");
            errors?.0.with(|error| error.as_ref()?.field(&path))
        })
    };
    view! {
        <ol node_ref=list class="flex flex-col gap-1.5" aria-label="Mounts">
            <For each=move || entries.get() key=|entry| entry.key let:entry>
                <MountRow
                    inputs=entry.row
                    volumes
                    readonly
                    source_error=refused(entry.key, ".source")
                    path_error=refused(entry.key, ".mount_path")
                    changed=Callback::new(move |()| write())
                    removed=Callback::new(move |()| remove(entry.key))
                />
            </For>
        </ol>
        {(!readonly)
            .then(|| {
                view! {
                    <AddRow
                        rows
                        label="Add mount"
                        most=domain::limits::MOUNTS_MAX
                        add=move |()| {
                            let source = volumes
                                .with_value(|volumes| volumes.first().map(|name| format!("volume:{name}")))
                                .unwrap_or_default();
                            rows.push(|| {
                                Inputs::new(MountLine {
                                    source,
                                    path: String::new(),
                                })
                            });
                        }
                    />
                }
            })}
    }
    .into_any()
}

#[component]
fn MountRow(
    inputs: Inputs,
    volumes: StoredValue<Vec<String>>,
    readonly: bool,
    source_error: Signal<Option<String>>,
    path_error: Signal<Option<String>>,
    changed: Callback<()>,
    removed: Callback<()>,
) -> impl IntoView {
    let saved = inputs.kind.get_untracked();
    let mut choices: Vec<(String, String)> = volumes.with_value(|volumes| {
        volumes
            .iter()
            .map(|name| (format!("volume:{name}"), format!("Volume {name}")))
            .collect()
    });
    if saved != FILE && !choices.iter().any(|(word, _)| *word == saved) {
        // What is saved is shown as what it is, although it is not offered any more.
        let name = saved.trim_start_matches("volume:");
        choices.push((saved.clone(), format!("Volume {name} (not offered)")));
    }
    choices.push((FILE.to_owned(), "File by address".to_owned()));
    let is_file = move || inputs.kind.with(|kind| kind == FILE);
    let invalid =
        |error: Signal<Option<String>>| move || error.with(Option::is_some).then_some("true");
    view! {
        <li class="rule-row">
            <select
                class="input w-44"
                aria-label="Source"
                disabled=readonly
                aria-invalid=invalid(source_error)
                on:change:target=move |event| {
                    inputs.kind.set(event.target().value());
                    changed.run(());
                }
            >
                {choices
                    .into_iter()
                    .map(|(word, label)| {
                        let selected = word == saved;
                        view! {
                            <option value=word selected=selected>
                                {label}
                            </option>
                        }
                    })
                    .collect_view()}
            </select>
            <div class="flex flex-1 flex-col gap-1.5 min-w-40">
                <Show when=is_file>
                    <input
                        class="input input-code"
                        aria-label="Address"
                        aria-invalid=invalid(source_error)
                        readonly=readonly
                        prop:value=move || inputs.address.get()
                        placeholder="https://example.com/model.bin"
                        spellcheck="false"
                        autocapitalize="off"
                        on:input:target=move |event| {
                            inputs.address.set(event.target().value());
                            changed.run(());
                        }
                    />
                </Show>
                {move || {
                    source_error
                        .get()
                        .map(|message| view! { <p class="field-error">{message}</p> })
                }}
                <input
                    class="input input-code"
                    aria-label="Path in the sandbox"
                    aria-invalid=invalid(path_error)
                    readonly=readonly
                    prop:value=move || inputs.path.get()
                    placeholder="/workspace/data"
                    spellcheck="false"
                    autocapitalize="off"
                    on:input:target=move |event| {
                        inputs.path.set(event.target().value());
                        changed.run(());
                    }
                />
                {move || {
                    path_error.get().map(|message| view! { <p class="field-error">{message}</p> })
                }}
            </div>
            {(!readonly)
                .then(|| {
                    view! {
                        <RowButton label=REMOVE icon=Icon::X act=removed />
                    }
                })}
        </li>
    }
    .into_any()
}
