//! What shows data, with samples.

use std::str::FromStr as _;

use domain::{
    ids::{EnvironmentId, SetupRunId, UserId},
    run_records::EgressOutcome,
    timestamp::Timestamp,
    verification::SetupImage,
};
use leptos::prelude::*;
use wire::{
    console::{FieldChange, RunHost, RunHosts},
    run_records::{EgressHost, LineTiming, PreviousRun, RunTimings},
    secrets::SecretItem,
};

use super::{NOW, Part, Specimen, State};
use crate::{
    api::secrets::SecretsView,
    components::{
        Changes, Difference, Prepared, hosts::List as HostList, secrets::List as SecretList,
        timings::Chart,
    },
};

fn change(label: &str, before: &str, after: &str) -> FieldChange {
    FieldChange {
        field: label.to_owned(),
        label: label.to_owned(),
        before: before.to_owned(),
        after: after.to_owned(),
        affects_verdict: true,
        by: Some("Ada".to_owned()),
        by_user_id: None,
        at: Some(Timestamp::from_micros(NOW).plus_seconds(-300)),
    }
}

fn host(name: &str, outcome: EgressOutcome, label: &str, count: u64) -> RunHost {
    let allowed = outcome != EgressOutcome::Denied;
    RunHost {
        asked: EgressHost {
            host: name.to_owned(),
            port: 443,
            allowed,
            outcome,
            rule: allowed.then_some(0),
            rule_host_glob: allowed.then(|| "*.example".to_owned()),
            redirected_from: None,
            line: Some(3),
            count,
        },
        label: label.to_owned(),
        may_allow: !allowed,
        allowed_since: false,
    }
}

fn line(line: u32, text: &str, seconds: f64, previous_seconds: Option<f64>) -> LineTiming {
    LineTiming {
        line,
        text: text.to_owned(),
        seconds,
        previous_seconds,
    }
}

/// Records.
#[component]
pub fn Records() -> impl IntoView {
    let (Ok(nowhere), Ok(run), Ok(ada)) = (
        EnvironmentId::from_str("019a0000-0000-7000-8000-000000000001"),
        SetupRunId::from_str("019a0000-0000-7000-8000-000000000002"),
        UserId::from_str("usr_019a0000000070008000000000000003"),
    ) else {
        return ().into_any();
    };
    let hosts = RunHosts {
        hosts: vec![
            host("blocked.example", EgressOutcome::Denied, "Blocked", 3),
            host("slow.example", EgressOutcome::UpstreamFailed, "Failed", 1),
            host("files.example", EgressOutcome::Allowed, "Allowed", 1_204),
        ],
        more: 0,
        blocked: 1,
        complete: true,
        removed_at: None,
        may_test: true,
    };
    let lines = vec![
        line(1, "apt-get update", 4.2, Some(3.9)),
        line(2, "apt-get install -y jq", 12.6, Some(21.0)),
        line(4, "pip install -r requirements.txt", 7.1, None),
    ];
    let timings = move |previous: Option<PreviousRun>| RunTimings {
        lines: lines.clone(),
        total_seconds: 23.9,
        previous,
        complete: true,
        removed_at: None,
    };
    let compared = timings(Some(PreviousRun {
        setup_run_id: run,
        total_seconds: 24.9,
    }));
    let secret = move |name: &str| SecretItem {
        name: name.to_owned(),
        set_by_user_id: ada,
        set_by: "Ada".to_owned(),
        set_at: Timestamp::from_micros(NOW).plus_seconds(-7_200),
    };
    let secrets = move |may_change: bool, names: &[&str]| SecretsView {
        secrets: names.iter().map(|name| secret(name)).collect(),
        may_change,
    };
    let image = |usable: bool| SetupImage {
        image_id: "img_sample".to_owned(),
        compute_id: "cmp_sample".to_owned(),
        setup_run_id: run,
        image: "groundwork/setup@sha256:6d1f0c7a9b24e8530d".to_owned(),
        base_image_digest: "sha256:e7a2d8bd3b4bd40466f6".to_owned(),
        fingerprint: domain::fingerprint::Fingerprint("sha256:0123".to_owned()),
        runner_image: "groundwork/runner:full".to_owned(),
        generation: 3,
        size_bytes: 412 * 1_024 * 1_024,
        captured_at: Timestamp::from_micros(NOW).plus_seconds(-300),
        usable,
        warmup: None,
        warmup_message: None,
    };
    let (prepared, lost) = (image(true), image(false));
    let text = RwSignal::new(String::new());
    let (set, paste, delete) = (
        ServerAction::new(),
        ServerAction::new(),
        ServerAction::new(),
    );
    view! {
        <Part title="Records">
            <Specimen title="Changes">
                <Changes changes=vec![
                    change("Name", "data", "data-analysis"),
                    change("Description", "", "For the weekly report"),
                    change("Setup script", "set -e\napt-get update\npip install pandas\n", "set -e\napt-get update\npip install polars\n"),
                ] />
            </Specimen>
            <Specimen title="Difference">
                <Difference label="vCPU".to_owned() before="2".to_owned() after="4".to_owned() />
            </Specimen>
            <Specimen title="Hosts, List">
                <State name="some were blocked" class="w-full">
                    <HostList environment_id=nowhere hosts allow=ServerAction::new() />
                </State>
            </Specimen>
            <Specimen title="Timings">
                <State name="against the run before" class="w-full">
                    <Chart environment_id=nowhere timings=compared />
                </State>
                <State name="the first run" class="w-full">
                    <Chart environment_id=nowhere timings=timings(None) />
                </State>
            </Specimen>
            <Specimen title="Prepared">
                <State name="usable" class="w-full">
                    <Prepared image=prepared />
                </State>
                <State name="no longer there" class="w-full">
                    <Prepared image=lost />
                </State>
            </Specimen>
            <Specimen title="Secrets, List">
                <State name="for those who may change them" class="w-full">
                    <SecretList environment_id=nowhere view=secrets(true, &["API_TOKEN", "DB_PASSWORD"]) set paste text delete />
                </State>
                <State name="only to read" class="w-full">
                    <SecretList environment_id=nowhere view=secrets(false, &["API_TOKEN"]) set paste text delete />
                </State>
                <State name="none" class="w-full">
                    <SecretList environment_id=nowhere view=secrets(false, &[]) set paste text delete />
                </State>
            </Specimen>
        </Part>
    }
    .into_any()
}
