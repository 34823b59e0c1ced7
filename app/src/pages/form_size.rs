//! The environment form's size and lifecycle.

use domain::limits;
use leptos::prelude::*;
use wire::console::Offer;

use crate::{
    components::{Errors, FieldError, Select, Switch, TextField},
    draft::is_on,
    format,
    pages::{form::Section, inputs::Inputs},
    units,
};

fn default_cpus() -> String {
    units::milli_as_cpus(limits::CPU_MILLI_DEFAULT)
}

fn default_gib() -> String {
    units::mib_as_gib(limits::MEMORY_MIB_DEFAULT)
}

/// What an input stands for: empty is the default.
fn effective(input: &str, default: &str) -> String {
    match input.trim() {
        "" => default.to_owned(),
        text => text.to_owned(),
    }
}

/// *Compute*.
#[component]
pub fn Compute(inputs: Inputs, offer: Offer, readonly: bool) -> impl IntoView {
    let (cpu, memory) = (inputs.cpu, inputs.memory);
    let catalog = offer.catalog;
    let saved_gpu = inputs.accelerator.get_untracked();
    let mut names = catalog.accelerators.clone();
    if !saved_gpu.is_empty() && !names.contains(&saved_gpu) {
        names.push(saved_gpu);
    }
    let has_gpus = !names.is_empty();
    let is_gpu = Signal::derive(move || inputs.accelerator.with(|name| !name.is_empty()));
    let summary = Signal::derive(move || {
        if is_gpu.get() {
            return format!("{} · 8 vCPU · 32 GiB", inputs.accelerator.get());
        }
        format!(
            "{} vCPU · {} GiB",
            effective(&cpu.get(), &default_cpus()),
            effective(&memory.get(), &default_gib())
        )
    });
    let largest = catalog
        .sizes
        .machines
        .iter()
        .max_by_key(|machine| (machine.cpu_milli, machine.memory_mib))
        .map(|machine| {
            format!(
                "The largest size that is offered: {} vCPU with {} GiB.",
                units::milli_as_cpus(machine.cpu_milli),
                units::mib_as_gib(machine.memory_mib)
            )
        })
        .unwrap_or_default();
    let refused: Vec<String> = offer
        .presets
        .iter()
        .filter_map(|preset| Some(format!("{}: {}", preset.name, preset.refused.as_ref()?)))
        .collect();
    let presets = StoredValue::new(offer.presets);
    let error = use_context::<Errors>();
    let error = Signal::derive(move || {
        error?.0.with(|error| {
            let error = error.as_ref()?;
            // The fields below have their own.
            error
                .issues()
                .into_iter()
                .find(|(path, _)| path == "resources")
                .map(|(_, message)| message)
        })
    });
    view! {
        <Section title="Compute" open=true summary>
            <div class="max-w-md">
                <Select
                    id="accelerator"
                    name="draft[accelerator]"
                    label="Compute kind"
                    value=inputs.accelerator
                    options=std::iter::once((String::new(), "CPU".to_owned()))
                        .chain(names.into_iter().map(|name| (name.clone(), format!("GPU: {name}"))))
                        .collect()
                    path="resources.accelerator"
                    hint=if has_gpus {
                        "A GPU comes with 8 vCPU and 32 GiB."
                    } else {
                        "No machine of this deployment has a GPU."
                    }
                    disabled=readonly || !has_gpus
                />
            </div>
            <div class="flex flex-col gap-4" hidden=move || is_gpu.get()>
                <div class="presets" role="group" aria-label="Sizes" hidden=readonly>
                    {presets
                        .with_value(|presets| {
                            presets
                                .iter()
                                .map(|preset| {
                                    let cpus = units::milli_as_cpus(preset.cpu_milli);
                                    let gib = units::mib_as_gib(preset.memory_mib);
                                    let (wanted_cpus, wanted_gib) = (cpus.clone(), gib.clone());
                                    let is_on = move || {
                                        let has_cpus = cpu.with(|now| effective(now, &default_cpus()) == wanted_cpus);
                                        let has_gib = memory.with(|now| effective(now, &default_gib()) == wanted_gib);
                                        (has_cpus && has_gib).to_string()
                                    };
                                    view! {
                                        <button
                                            type="button"
                                            class="preset"
                                            aria-pressed=is_on
                                            disabled=preset.refused.is_some()
                                            on:click=move |_| {
                                                cpu.set(cpus.clone());
                                                memory.set(gib.clone());
                                            }
                                        >
                                            <span class="font-medium">{preset.name.clone()}</span>
                                            <span class="preset-size">{preset.text.clone()}</span>
                                            {preset
                                                .refused
                                                .is_some()
                                                .then(|| view! { <span class="preset-size">"Not offered here"</span> })}
                                        </button>
                                    }
                                })
                                .collect_view()
                        })}
                </div>
                {(!refused.is_empty() && !readonly)
                    .then(|| {
                        view! {
                            <ul class="field-hint flex flex-col gap-0.5">
                                {refused.into_iter().map(|text| view! { <li>{text}</li> }).collect_view()}
                            </ul>
                        }
                    })}
                <FieldError id="resources-error".to_owned() message=error />
                <div class="grid gap-4 sm:grid-cols-2 max-w-md">
                    <TextField
                        id="cpu"
                        name="draft[cpu]"
                        label="vCPU"
                        value=cpu
                        path="resources.cpu_milli"
                        together=("resources", "resources-error")
                        inputmode="decimal"
                        placeholder=default_cpus()
                        readonly=readonly
                    />
                    <TextField
                        id="memory"
                        name="draft[memory]"
                        label="Memory (GiB)"
                        value=memory
                        path="resources.memory_mib"
                        together=("resources", "resources-error")
                        inputmode="decimal"
                        placeholder=default_gib()
                        readonly=readonly
                    />
                </div>
                <p class="field-hint">{largest}</p>
            </div>
        </Section>
    }
    .into_any()
}

/// *Storage and lifecycle*.
#[component]
pub fn Storage(inputs: Inputs, offer: Offer, readonly: bool) -> impl IntoView {
    let number = |text: String, default: u32| text.trim().parse().unwrap_or(default);
    let summary = Signal::derive(move || {
        let disk = number(inputs.disk.get(), limits::DISK_GI_DEFAULT);
        let idle = number(inputs.idle_stop.get(), limits::IDLE_STOP_DEFAULT);
        format!(
            "{disk} GiB disk · stops after {} idle",
            format::duration(i64::from(idle) * 1_000)
        )
    });
    let computer_use = offer.catalog.computer_use || is_on(&inputs.computer_use.get_untracked());
    view! {
        <Section title="Storage and lifecycle" summary>
            <div class="grid gap-4 sm:grid-cols-2">
                <TextField
                    id="disk"
                    name="draft[disk]"
                    label="Workspace disk (GiB)"
                    value=inputs.disk
                    path="pvc_size_gi"
                    kind="number"
                    inputmode="numeric"
                    placeholder=limits::DISK_GI_DEFAULT.to_string()
                    hint=format!("1 to {}.", limits::DISK_GI_MAX)
                    readonly=readonly
                />
                <TextField
                    id="idle_stop"
                    name="draft[idle_stop]"
                    label="Idle stop after (seconds)"
                    value=inputs.idle_stop
                    path="idle_stop_after_seconds"
                    kind="number"
                    inputmode="numeric"
                    placeholder=limits::IDLE_STOP_DEFAULT.to_string()
                    hint=format!(
                        "{} to {}; with computer use at least {}.",
                        limits::IDLE_STOP_MIN,
                        format::grouped(u64::from(limits::IDLE_STOP_MAX)),
                        limits::IDLE_STOP_MIN_COMPUTER_USE,
                    )
                    readonly=readonly
                />
                <TextField
                    id="stopped_delete"
                    name="draft[stopped_delete]"
                    label="Keep a stopped workspace for (seconds)"
                    value=inputs.stopped_delete
                    path="stopped_delete_after_seconds"
                    kind="number"
                    inputmode="numeric"
                    placeholder=limits::STOPPED_DELETE_DEFAULT.to_string()
                    hint="3,600 (an hour) to 2,592,000 (30 days)."
                    readonly=readonly
                />
                <TextField
                    id="life"
                    name="draft[life]"
                    label="Longest life of a sandbox (seconds)"
                    value=inputs.life
                    path="resources.timeout_seconds"
                    kind="number"
                    inputmode="numeric"
                    placeholder="Unbounded"
                    hint="10 to 86,400, whatever happens inside."
                    readonly=readonly
                />
                <TextField
                    id="http_port"
                    name="draft[http_port]"
                    label="HTTP port"
                    value=inputs.http_port
                    path="http_port"
                    kind="number"
                    inputmode="numeric"
                    placeholder="None"
                    hint="A port in the sandbox that sessions expose."
                    readonly=readonly
                />
            </div>
            {computer_use
                .then(|| {
                    view! {
                        <Switch
                            id="computer_use"
                            name="draft[computer_use]"
                            label="Computer use"
                            value=inputs.computer_use
                            path="computer_use"
                            hint="A desktop that an agent sees and uses."
                            disabled=readonly
                        />
                    }
                })}
        </Section>
    }
    .into_any()
}
