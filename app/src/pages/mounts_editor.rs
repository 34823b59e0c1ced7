//! The mounts of an environment: as a list, or without scripting as text. The text is what is posted.

use leptos::{html, prelude::*};

use crate::{
    components::{Draw, Errors, FieldError, Icon, basics::alive, bind_text},
    draft::{MountLine, parse_mounts, show_mounts},
    text::raw,
};

/// The choice of a row that is a file from the web.
const FILE: &str = "https";

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
    let node: NodeRef<html::Textarea> = NodeRef::new();
    bind_text(node, mounts);
    let alive = alive();
    // A list is made anew whenever the text changes by something else than the list.
    let written = RwSignal::new(String::new());
    let lists = Memo::new(move |_| {
        mounts.with(|text| (*text != written.get_untracked()).then(|| text.clone()))
    });
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
            <div hidden=move || alive.get()>
                <label class="visually-hidden" for="mounts">
                    "Mounts, one a line"
                </label>
                <textarea
                    node_ref=node
                    id="mounts"
                    class="input input-code"
                    name="draft[mounts]"
                    rows="4"
                    spellcheck="false"
                    readonly=readonly
                    aria-describedby="mounts-error mounts-hint"
                    placeholder="volume:NAME /workspace/data\nhttps://example.com/model.bin /workspace/model.bin"
                    on:input:target=move |event| mounts.set(event.target().value())
                >
                    {raw(&mounts.get_untracked())}
                </textarea>
                <p class="field-hint mt-1">
                    "One a line: volume:NAME or an https:// address, a blank, and a path."
                </p>
            </div>
            {move || {
                alive
                    .get()
                    .then(|| {
                        // Only to run again when the text was changed from outside.
                        let _ = lists.get();
                        view! { <MountList mounts written volumes readonly /> }
                    })
            }}
            <FieldError id="mounts-error".to_owned() message=error />
        </div>
    }
    .into_any()
}

#[derive(Clone, Copy)]
struct Entry {
    key: usize,
    /// `volume:NAME`, or [`FILE`].
    kind: RwSignal<String>,
    address: RwSignal<String>,
    path: RwSignal<String>,
}

impl Entry {
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
fn MountList(
    mounts: RwSignal<String>,
    written: RwSignal<String>,
    volumes: StoredValue<Vec<String>>,
    readonly: bool,
) -> impl IntoView {
    let next_key = StoredValue::new(0_usize);
    // The list's own: a row that is made while another one answers must outlive that one.
    let owner = StoredValue::new(Owner::current().unwrap_or_default());
    let entry = move |line: MountLine| {
        next_key.update_value(|key| *key += 1);
        let (kind, address) = if line.source.starts_with("volume:") {
            (line.source, String::new())
        } else {
            (FILE.to_owned(), line.source)
        };
        owner.with_value(|owner| {
            owner.with(|| Entry {
                key: next_key.get_value(),
                kind: RwSignal::new(kind),
                address: RwSignal::new(address),
                path: RwSignal::new(line.path),
            })
        })
    };
    let entries = RwSignal::new(
        mounts
            .with_untracked(|text| parse_mounts(text))
            .into_iter()
            .map(entry)
            .collect::<Vec<_>>(),
    );
    let write = move || {
        let lines: Vec<MountLine> =
            entries.with_untracked(|entries| entries.iter().map(|entry| entry.line()).collect());
        let text = show_mounts(&lines);
        written.set(text.clone());
        mounts.set(text);
    };
    let remove = move |key: usize| {
        entries.update(|entries| entries.retain(|other| other.key != key));
        write();
    };
    let errors = use_context::<Errors>();
    // What was refused of a row, by its place among those that were sent.
    let refused = move |key: usize, field: &'static str| {
        Signal::derive(move || {
            let at = entries.with(|entries| {
                let mut sent = entries
                    .iter()
                    .filter(|entry| entry.line() != MountLine::default());
                sent.position(|entry| entry.key == key)
            })?;
            let path = format!("mounts[{at}]{field}");
            errors?.0.with(|error| error.as_ref()?.field(&path))
        })
    };
    view! {
        <ol class="flex flex-col gap-1.5" aria-label="Mounts">
            <For each=move || entries.get() key=|entry| entry.key let:entry>
                <MountRow
                    entry
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
                    <button
                        type="button"
                        class="button button-small self-start"
                        disabled=move || entries.with(|entries| entries.len() >= domain::limits::MOUNTS_MAX)
                        on:click=move |_| {
                            let source = volumes
                                .with_value(|volumes| volumes.first().map(|name| format!("volume:{name}")))
                                .unwrap_or_default();
                            let fresh = entry(MountLine {
                                source,
                                path: String::new(),
                            });
                            entries.update(|entries| entries.push(fresh));
                        }
                    >
                        <Draw icon=Icon::Plus />
                        "Add mount"
                    </button>
                }
            })}
    }
    .into_any()
}

#[component]
fn MountRow(
    entry: Entry,
    volumes: StoredValue<Vec<String>>,
    readonly: bool,
    source_error: Signal<Option<String>>,
    path_error: Signal<Option<String>>,
    changed: Callback<()>,
    removed: Callback<()>,
) -> impl IntoView {
    let saved = entry.kind.get_untracked();
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
    let is_file = move || entry.kind.with(|kind| kind == FILE);
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
                    entry.kind.set(event.target().value());
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
                        prop:value=move || entry.address.get()
                        placeholder="https://example.com/model.bin"
                        spellcheck="false"
                        autocapitalize="off"
                        on:input:target=move |event| {
                            entry.address.set(event.target().value());
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
                    prop:value=move || entry.path.get()
                    placeholder="/workspace/data"
                    spellcheck="false"
                    autocapitalize="off"
                    on:input:target=move |event| {
                        entry.path.set(event.target().value());
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
                        <button
                            type="button"
                            class="button button-ghost button-icon"
                            aria-label="Remove"
                            on:click=move |_| removed.run(())
                        >
                            <Draw icon=Icon::X />
                        </button>
                    }
                })}
        </li>
    }
    .into_any()
}
