//! The time that pages count on: the server's when the page was made, and from then on the browser's own ticking.

use domain::timestamp::Timestamp;
use leptos::prelude::*;

/// The present, as a signal; the same on the server and in the browser's first rendering.
#[derive(Clone, Copy)]
pub struct Now(RwSignal<Timestamp>);

impl Now {
    /// Starts from the server's time and ticks every second in the browser, until the page goes.
    pub fn start(server_micros: i64) -> Self {
        let now = RwSignal::new(Timestamp::from_micros(server_micros));
        #[cfg(feature = "hydrate")]
        Effect::new(move |_| {
            let began = browser_ms();
            let tick = set_interval_with_handle(
                move || {
                    #[allow(
                        clippy::cast_possible_truncation,
                        reason = "milliseconds of one visit fit"
                    )]
                    let passed = (browser_ms() - began) as i64;
                    now.set(Timestamp::from_micros(
                        server_micros.saturating_add(passed * 1_000),
                    ));
                },
                std::time::Duration::from_secs(1),
            );
            on_cleanup(move || {
                if let Ok(tick) = tick {
                    tick.clear();
                }
            });
        });
        Self(now)
    }

    /// The present.
    pub fn get(self) -> Timestamp {
        self.0.get()
    }
}

/// Milliseconds that only ever grow.
#[cfg(feature = "hydrate")]
fn browser_ms() -> f64 {
    window()
        .performance()
        .map_or(0.0, |performance| performance.now())
}

/// `12 s ago`, exact on hover; the exact time is in the reader's zone once the page is alive.
#[component]
pub fn Ago(
    /// When.
    at: Timestamp,
) -> impl IntoView {
    let now = use_context::<Now>();
    let exact = local_text(at);
    // A table has thousands of these, and most are young.
    let is_old =
        now.is_some_and(|now| crate::format::relative(at, now.0.get_untracked()).is_none());
    let date = is_old.then(|| local_date(at));
    let text = move || match now {
        None => crate::format::exact_utc(at),
        Some(now) => crate::format::relative(at, now.get())
            .or_else(|| date.map(|date| date.get()))
            .unwrap_or_else(|| crate::format::date_utc(at)),
    };
    view! {
        <time datetime=at.to_string() title=exact>
            {text}
        </time>
    }
}

/// The exact time as a text: UTC on the server and in the first rendering, the reader's zone after that.
pub fn local_text(at: Timestamp) -> Signal<String> {
    let text = RwSignal::new(crate::format::exact_utc(at));
    #[cfg(feature = "hydrate")]
    Effect::new(move |_| {
        let date = js_sys::Date::new(&wasm_bindgen::JsValue::from_f64(micros_as_ms(at)));
        text.set(String::from(
            date.to_locale_string("default", &wasm_bindgen::JsValue::UNDEFINED),
        ));
    });
    text.into()
}

/// `2026-07-01`: UTC on the server and in the first rendering, the reader's zone after that.
pub fn local_date(at: Timestamp) -> Signal<String> {
    let text = RwSignal::new(crate::format::date_utc(at));
    #[cfg(feature = "hydrate")]
    Effect::new(move |_| {
        let date = js_sys::Date::new(&wasm_bindgen::JsValue::from_f64(micros_as_ms(at)));
        text.set(format!(
            "{:04}-{:02}-{:02}",
            date.get_full_year(),
            date.get_month() + 1,
            date.get_date()
        ));
    });
    text.into()
}

/// `12:04:11` in the reader's zone; only in the browser.
pub fn local_time(at: Timestamp) -> String {
    let date = js_sys::Date::new(&wasm_bindgen::JsValue::from_f64(micros_as_ms(at)));
    format!(
        "{:02}:{:02}:{:02}",
        date.get_hours(),
        date.get_minutes(),
        date.get_seconds()
    )
}

#[allow(
    clippy::cast_precision_loss,
    reason = "milliseconds since 1970 are exact in f64"
)]
fn micros_as_ms(at: Timestamp) -> f64 {
    (at.micros() / 1_000) as f64
}
