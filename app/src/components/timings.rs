//! How long each script line of a run took, against the run before it.

use domain::ids::{EnvironmentId, SetupRunId};
use leptos::prelude::*;
use wire::run_records::{LineTiming, RunTimings};

use super::icons::{Draw, Icon};
use crate::{api::records::load_run_timings, format, links};

/// Lines that are drawn before the rest is folded away.
const SHOWN: usize = 15;

/// The times of a run; nothing until its script has ended.
#[component]
pub fn Timings(
    /// The environment.
    environment_id: EnvironmentId,
    /// The run.
    setup_run_id: SetupRunId,
    /// Whether the run has ended.
    #[prop(into)]
    finished: Signal<bool>,
) -> impl IntoView {
    let timings = Resource::new(
        move || finished.get(),
        move |finished| async move {
            match finished {
                true => load_run_timings(environment_id, setup_run_id).await.ok(),
                false => None,
            }
        },
    );
    view! {
        <Transition>
            {move || Suspend::new(async move {
                timings
                    .await
                    .filter(|timings| !timings.lines.is_empty())
                    .map(|timings| view! { <Chart environment_id timings /> })
            })}
        </Transition>
    }
    .into_any()
}

fn show(seconds: f64) -> String {
    #[allow(clippy::cast_possible_truncation, reason = "a run's milliseconds fit")]
    format::duration((seconds * 1_000.0).round() as i64)
}

/// `+1.2 s`, `−300 ms`, or nothing where it is much the same.
fn difference(now: f64, before: f64) -> Option<String> {
    let change = now - before;
    let noticed = change.abs() >= 0.1 && change.abs() >= before * 0.1;
    noticed.then(|| {
        let sign = if change > 0.0 { '+' } else { '−' };
        format!("{sign}{}", show(change.abs()))
    })
}

/// Its chart.
#[component]
pub fn Chart(
    /// The environment.
    environment_id: EnvironmentId,
    /// The times.
    timings: RunTimings,
) -> impl IntoView {
    let longest = timings
        .lines
        .iter()
        .flat_map(|line| [line.seconds, line.previous_seconds.unwrap_or(0.0)])
        .fold(0.001, f64::max);
    let slowest = timings
        .lines
        .iter()
        .max_by(|a, b| a.seconds.total_cmp(&b.seconds))
        .map(|line| format!("slowest: line {}", line.line))
        .unwrap_or_default();
    let total = match &timings.previous {
        Some(previous) => match difference(timings.total_seconds, previous.total_seconds) {
            Some(change) => format!("{} ({change}), {slowest}", show(timings.total_seconds)),
            None => format!("{}, as before, {slowest}", show(timings.total_seconds)),
        },
        None => format!("{}, {slowest}", show(timings.total_seconds)),
    };
    let compared = timings.previous.map(|previous| {
        let path = links::run(environment_id, previous.setup_run_id);
        view! {
            <p class="text-xs text-ink-3 mb-2">
                "The thin grey bar is the same line in " <a class="link" href=path>"the run before"</a> "."
            </p>
        }
    });
    let mut lines = timings.lines;
    let more = lines.split_off(lines.len().min(SHOWN));
    let table = move |lines: Vec<LineTiming>| {
        view! {
            <table class="w-full text-sm">
                <caption class="visually-hidden">"Time of each script line"</caption>
                <thead class="visually-hidden">
                    <tr>
                        <th scope="col">"Line"</th>
                        <th scope="col">"Command"</th>
                        <th scope="col">"Time"</th>
                    </tr>
                </thead>
                <tbody>{lines.into_iter().map(|line| view! { <Bar line longest /> }).collect_view()}</tbody>
            </table>
        }
    };
    view! {
        <details class="section">
            <summary>
                <Draw icon=Icon::ChevronRight />
                <h3 class="text-sm font-semibold">"Time of each line"</h3>
                <span class="section-summary">{total}</span>
            </summary>
            <div class="section-body">
                {compared} {table(lines)}
                {(!more.is_empty())
                    .then(|| {
                        view! {
                            <details>
                                <summary class="text-sm text-ink-2 py-1.5">{format!("{} more", more.len())}</summary>
                                {table(more)}
                            </details>
                        }
                    })}
            </div>
        </details>
    }
    .into_any()
}

#[component]
fn Bar(line: LineTiming, longest: f64) -> impl IntoView {
    let width = move |seconds: f64| format!("{:.2}", (seconds / longest * 100.0).max(0.3));
    let change = line
        .previous_seconds
        .and_then(|before| difference(line.seconds, before));
    view! {
        <tr class="align-top">
            <th scope="row" class="pr-3 py-1 text-right font-normal text-ink-3 tabular-nums">
                {line.line}
            </th>
            <td class="py-1 w-full max-w-0">
                <code class="mono block truncate" title=line.text.clone()>
                    {line.text.clone()}
                </code>
                <svg class="block w-full h-2 mt-0.5" viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true">
                    <rect class="fill-accent" x="0" y="0" height="5" width=width(line.seconds) />
                    {line
                        .previous_seconds
                        .map(|before| view! { <rect class="fill-line-strong" x="0" y="6" height="2" width=width(before) /> })}
                </svg>
            </td>
            <td class="pl-3 py-1 text-right whitespace-nowrap tabular-nums">
                {show(line.seconds)} {change.map(|change| view! { <span class="block text-xs text-ink-3">{change}</span> })}
            </td>
        </tr>
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_difference_that_one_notices_is_shown() {
        for (now, before, text) in [
            (2.0, 1.0, Some("+1.0 s")),
            (1.0, 1.35, Some("−350 ms")),
            (1.05, 1.0, None),
            (100.0, 99.0, None),
            (0.01, 0.05, None),
        ] {
            assert_eq!(difference(now, before).as_deref(), text, "{now} {before}");
        }
    }
}
