//! `/metrics` in the text format of Prometheus.

use std::{
    fmt::Write,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use axum::{
    extract::State,
    response::{IntoResponse, Response},
};
use control::images::ImageFigures;
use http::{HeaderValue, header};

use super::AppState;

/// Upper bounds of the histogram's buckets, in milliseconds. Held requests end up in the last ones.
const BOUNDS_MILLIS: [u64; 9] = [5, 10, 25, 50, 100, 250, 1_000, 5_000, 10_000];

/// Counters since the start.
#[derive(Debug, Default)]
pub struct Metrics {
    /// Answers by hundreds of the status: 1xx to 5xx.
    answers: [AtomicU64; 5],
    /// Answers by duration, each in its own bucket; the last one has no bound.
    durations: [AtomicU64; BOUNDS_MILLIS.len() + 1],
    /// Microseconds of all of them.
    micros: AtomicU64,
    /// Requests whose answer has not begun.
    held: AtomicU64,
}

/// A request whose answer has not begun; also one that its client gave up.
pub struct Held<'m>(&'m AtomicU64);

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Metrics {
    /// Counts a request until the guard is dropped.
    pub fn hold(&self) -> Held<'_> {
        self.held.fetch_add(1, Ordering::Relaxed);
        Held(&self.held)
    }

    /// Counts an answer whose head took this long.
    pub fn count(&self, status: u16, took: Duration) {
        let class = usize::from(status / 100).clamp(1, 5) - 1;
        self.answers[class].fetch_add(1, Ordering::Relaxed);
        let millis = took.as_millis();
        let bucket = BOUNDS_MILLIS.partition_point(|bound| u128::from(*bound) < millis);
        self.durations[bucket].fetch_add(1, Ordering::Relaxed);
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.micros.fetch_add(micros, Ordering::Relaxed);
    }

    fn text(&self, ready: &[(&str, bool)], images: ImageFigures) -> String {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let mut text = String::new();
        let mut line = |args: std::fmt::Arguments<'_>| {
            // Writing to a string cannot fail.
            let _ = text.write_fmt(args);
            text.push('\n');
        };
        line(format_args!(
            "# HELP groundwork_build_info The running version.\n# TYPE groundwork_build_info gauge"
        ));
        line(format_args!(
            "groundwork_build_info{{version=\"{}\"}} 1",
            env!("CARGO_PKG_VERSION")
        ));
        line(format_args!(
            "# HELP groundwork_ready Whether a part that setup runs need is there.\n# TYPE groundwork_ready gauge"
        ));
        for (part, ok) in ready {
            line(format_args!(
                "groundwork_ready{{part=\"{part}\"}} {}",
                u8::from(*ok)
            ));
        }
        for (name, kind, help, value) in [
            (
                "groundwork_images",
                "gauge",
                "Setup images that sessions can start from.",
                images.images,
            ),
            (
                "groundwork_image_bytes",
                "gauge",
                "Bytes that setup images take together.",
                images.bytes,
            ),
            (
                "groundwork_images_evicted_total",
                "counter",
                "Setup images that gave way to others.",
                images.evicted,
            ),
            (
                "groundwork_images_missing_total",
                "counter",
                "Setup images whose layer was found missing.",
                images.missing,
            ),
            (
                "groundwork_layers_deleted_total",
                "counter",
                "Saved layers that workers were told to delete.",
                images.layers_deleted,
            ),
        ] {
            line(format_args!(
                "# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {value}"
            ));
        }
        line(format_args!(
            "# HELP groundwork_http_held Requests whose answer has not begun.\n# TYPE groundwork_http_held gauge\ngroundwork_http_held {}",
            get(&self.held)
        ));
        line(format_args!(
            "# HELP groundwork_http_answers_total Answers by class of status.\n# TYPE groundwork_http_answers_total counter"
        ));
        for (n, counter) in self.answers.iter().enumerate() {
            line(format_args!(
                "groundwork_http_answers_total{{status=\"{}xx\"}} {}",
                n + 1,
                get(counter)
            ));
        }
        line(format_args!(
            "# HELP groundwork_http_answer_seconds Time to the head of the answer.\n# TYPE groundwork_http_answer_seconds histogram"
        ));
        let mut so_far = 0;
        for (bound, counter) in BOUNDS_MILLIS.iter().zip(&self.durations) {
            so_far += get(counter);
            line(format_args!(
                "groundwork_http_answer_seconds_bucket{{le=\"{}.{:03}\"}} {so_far}",
                bound / 1_000,
                bound % 1_000
            ));
        }
        so_far += self.durations.last().map_or(0, get);
        line(format_args!(
            "groundwork_http_answer_seconds_bucket{{le=\"+Inf\"}} {so_far}"
        ));
        let micros = get(&self.micros);
        line(format_args!(
            "groundwork_http_answer_seconds_sum {}.{:06}",
            micros / 1_000_000,
            micros % 1_000_000
        ));
        line(format_args!(
            "groundwork_http_answer_seconds_count {so_far}"
        ));
        text
    }
}

/// `GET /metrics`
pub async fn metrics(State(state): State<AppState>) -> Response {
    let found = super::health::found(&state).await;
    let text = state.metrics.text(
        &[
            ("database", found.database),
            ("worker", found.worker),
            ("runner_image", found.runner_image),
        ],
        state.control.image_figures(),
    );
    (
        [(
            header::CONTENT_TYPE,
            HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8"),
        )],
        text,
    )
        .into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_counted_by_class_and_duration() {
        let metrics = Metrics::default();
        metrics.count(200, Duration::from_millis(5));
        metrics.count(404, Duration::from_millis(30));
        metrics.count(503, Duration::from_secs(60));
        drop(metrics.hold());
        let _held = [metrics.hold(), metrics.hold()];
        let images = ImageFigures {
            images: 2,
            bytes: 300,
            evicted: 1,
            ..ImageFigures::default()
        };
        let text = metrics.text(&[("database", true)], images);
        for line in [
            "groundwork_ready{part=\"database\"} 1",
            "groundwork_images 2",
            "groundwork_image_bytes 300",
            "groundwork_images_evicted_total 1",
            "groundwork_http_held 2",
            "groundwork_http_answers_total{status=\"2xx\"} 1",
            "groundwork_http_answers_total{status=\"4xx\"} 1",
            "groundwork_http_answers_total{status=\"5xx\"} 1",
            "groundwork_http_answer_seconds_bucket{le=\"0.005\"} 1",
            "groundwork_http_answer_seconds_bucket{le=\"0.050\"} 2",
            "groundwork_http_answer_seconds_bucket{le=\"10.000\"} 2",
            "groundwork_http_answer_seconds_bucket{le=\"+Inf\"} 3",
            "groundwork_http_answer_seconds_sum 60.035000",
            "groundwork_http_answer_seconds_count 3",
        ] {
            assert!(text.lines().any(|l| l == line), "{line}:\n{text}");
        }
    }
}
