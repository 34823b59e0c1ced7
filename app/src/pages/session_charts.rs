//! What a session used: small charts, drawn by us.

use leptos::prelude::*;
use wire::sessions::{Session, Usage};

use crate::format::bytes;

/// Width and height of the drawing, in its own units.
const WIDTH: f64 = 240.0;
const HEIGHT: f64 = 48.0;

/// The points of a line through these values, `most` at the top; and the same closed to an area.
fn path(values: &[f64], most: f64) -> (String, String) {
    use std::fmt::Write as _;
    let most = if most > 0.0 { most } else { 1.0 };
    #[allow(clippy::cast_precision_loss, reason = "at most 720 values")]
    let step = WIDTH / (values.len().saturating_sub(1).max(1)) as f64;
    let mut line = String::new();
    for (index, value) in values.iter().enumerate() {
        #[allow(clippy::cast_precision_loss, reason = "at most 720 values")]
        let x = step * index as f64;
        let y = HEIGHT - 1.0 - (value / most).clamp(0.0, 1.0) * (HEIGHT - 2.0);
        // Writing to a String cannot fail.
        let _ = write!(line, "{}{x:.1} {y:.1}", if index == 0 { "M" } else { " L" });
    }
    let area = format!("{line} L{WIDTH} {HEIGHT} L0 {HEIGHT} Z");
    (line, area)
}

#[component]
fn Chart(
    title: &'static str,
    /// Now, in words.
    now: String,
    /// The limit, in words.
    #[prop(optional, into)]
    of: String,
    values: Vec<f64>,
    most: f64,
) -> impl IntoView {
    let (line, area) = path(&values, most);
    let label = if of.is_empty() {
        format!("{title}: {now}")
    } else {
        format!("{title}: {now} of {of}")
    };
    let drawn = values.len() > 1;
    view! {
        <figure class="chart">
            <figcaption class="chart-head">
                <span class="chart-title">{title}</span>
                <span class="chart-now">
                    {now} {(!of.is_empty()).then(|| view! { <span class="text-ink-3">" of " {of}</span> })}
                </span>
            </figcaption>
            <svg
                class="chart-body"
                viewBox=format!("0 0 {WIDTH} {HEIGHT}")
                preserveAspectRatio="none"
                role="img"
                aria-label=label
            >
                {drawn
                    .then(|| {
                        view! {
                            <path class="chart-area" d=area />
                            <path class="chart-line" d=line />
                        }
                    })}
            </svg>
        </figure>
    }
    .into_any()
}

#[allow(clippy::cast_precision_loss, reason = "drawn, not counted")]
fn values(samples: &[Usage], of: impl Fn(&Usage) -> u64) -> Vec<f64> {
    samples.iter().map(|sample| of(sample) as f64).collect()
}

/// The charts of a running session.
#[component]
pub fn Charts(session: Session, samples: Vec<Usage>) -> impl IntoView {
    let Some(last) = samples.last().copied() else {
        return view! {
            <p class="text-sm text-ink-2">"The first measurement comes within 5 seconds."</p>
        }
        .into_any();
    };
    let cpu_limit = session.resources.cpu_milli;
    #[allow(clippy::cast_precision_loss, reason = "drawn, not counted")]
    let cpu = last.cpu_milli as f64 / 1_000.0;
    let processes = values(&samples, |sample| sample.processes);
    let most_processes = processes.iter().copied().fold(10.0, f64::max);
    #[allow(clippy::cast_precision_loss, reason = "drawn, not counted")]
    let (memory, disk) = (last.memory_limit as f64, last.disk_size as f64);
    view! {
        <div class="charts">
            <Chart
                title="CPU"
                now=format!("{cpu:.2}")
                of=format!("{} vCPU", f64::from(cpu_limit) / 1_000.0)
                values=values(&samples, |sample| sample.cpu_milli)
                most=f64::from(cpu_limit)
            />
            <Chart
                title="Memory"
                now=bytes(last.memory_used)
                of=bytes(last.memory_limit)
                values=values(&samples, |sample| sample.memory_used)
                most=memory
            />
            <Chart
                title="Disk"
                now=bytes(last.disk_used)
                of=bytes(last.disk_size)
                values=values(&samples, |sample| sample.disk_used)
                most=disk
            />
            <Chart
                title="Processes"
                now=last.processes.to_string()
                values=processes
                most=most_processes
            />
        </div>
    }
    .into_any()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_goes_from_edge_to_edge_and_stays_inside() {
        let (line, area) = path(&[0.0, 2.0, 9.0], 4.0);
        assert_eq!(line, "M0.0 47.0 L120.0 24.0 L240.0 1.0");
        assert!(area.ends_with("L240 48 L0 48 Z"));
        assert_eq!(path(&[1.0], 0.0).0, "M0.0 1.0");
        assert_eq!(path(&[], 1.0).0, "");
    }
}
