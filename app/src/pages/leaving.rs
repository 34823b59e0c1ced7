//! Asks before changes that were not saved are left behind, whichever way the reader leaves: a link, a key, the browser's
//! *Back*, a button that leads to another page, closing the tab.

use leptos::{ev, prelude::*};
use leptos_router::hooks::use_location;
use wasm_bindgen::JsCast as _;

use crate::{draft::Draft, links, pages::inputs::Inputs};

/// Attribute of what holds a form whose sending leads to another page; its value is what to ask first.
pub const LEAVES: &str = "data-leaves";

/// The form of the page that is open, where it has one; known to the whole console.
#[derive(Clone, Copy)]
pub struct Leaving(StoredValue<Option<Form>>);

#[derive(Clone, Copy)]
struct Form {
    /// What to ask before an address is gone to; `None` where nothing would be lost.
    question: Callback<String, Option<&'static str>>,
    /// The address of the form's page.
    at: Callback<(), Address>,
}

impl Leaving {
    /// No form yet, and the browser's *Back* and *Forward* are listened to. To be made before the router: for what happens
    /// to the window browsers ask listeners in the order in which they came, and the router's leaves.
    pub fn listen() -> Self {
        let leaving = Self(StoredValue::new(None));
        if cfg!(feature = "hydrate") {
            let back = window_event_listener_untyped("popstate", move |event| leaving.back(&event));
            on_cleanup(move || back.remove());
        }
        leaving
    }

    /// Whether the page may be left for `address`; asks where something would be lost.
    pub fn may(self, address: &str) -> bool {
        // A form that has gone has nothing to lose.
        let form = self.0.get_value();
        match form.and_then(|form| form.question.try_run(address.to_owned())) {
            Some(Some(lost)) => agrees(lost),
            _ => true,
        }
    }

    fn back(self, event: &web_sys::Event) {
        let Some(was) = self.0.get_value().and_then(|form| form.at.try_run(())) else {
            return;
        };
        let is = address();
        if was.page == is || self.may(&is) {
            return;
        }
        stay(event);
        // The browser has changed the address already; the page is still the one that was.
        if let Ok(history) = window().history() {
            let null = wasm_bindgen::JsValue::NULL;
            // Refused for addresses of other sites alone.
            let _ = history.push_state_with_url(&null, "", Some(&was.whole));
        }
    }
}

fn agrees(question: &str) -> bool {
    window().confirm_with_message(question).unwrap_or(true)
}

/// What to ask before `to` is gone to from `at`, if anything would be lost. A starting point on the create page replaces
/// what it sets; the name and the description stay.
fn question(
    at: &Address,
    to: &str,
    inputs: Inputs,
    saved: RwSignal<Draft>,
) -> Option<&'static str> {
    if stays_on(&at.page, to) {
        return None;
    }
    let creates = |page: &str| page.split('?').next() == Some(links::NEW_ENVIRONMENT);
    let is_start = creates(&at.page) && creates(to);
    let draft = untrack(|| inputs.draft());
    saved.with_untracked(|saved| {
        if is_start {
            let changed = Draft {
                name: saved.name.clone(),
                description: saved.description.clone(),
                ..draft
            };
            (changed != *saved).then_some(
                "Replace what you changed with this starting point? The name and the description stay.",
            )
        } else {
            (draft != *saved).then_some("Leave without saving your changes?")
        }
    })
}

/// Whether going from the page `at` to `to` shows the same form: what follows `#` is a place in it, and the create page
/// alone is another one with another query.
fn stays_on(at: &str, to: &str) -> bool {
    let to = to.split('#').next().unwrap_or_default();
    let path = |page: &str| page.split('?').next().unwrap_or_default().to_owned();
    to.is_empty() || to == at || (path(to) == path(at) && path(at) != links::NEW_ENVIRONMENT)
}

/// Whether this click leaves the page where it is: the browser opens a tab or a window, or saves a file.
fn goes_elsewhere(event: &web_sys::Event, link: &web_sys::Element) -> bool {
    let has_key = event
        .dyn_ref::<web_sys::MouseEvent>()
        .is_some_and(|click| click.ctrl_key() || click.meta_key() || click.shift_key());
    has_key || link.has_attribute("download") || link.has_attribute("target")
}

/// Asks before changes that were not saved are left behind.
pub fn warn_before_leaving(inputs: Inputs, saved: RwSignal<Draft>, sending: Memo<bool>) {
    let is_dirty = Memo::new(move |_| saved.with(|saved| inputs.draft() != *saved));
    let leaving = use_context::<Leaving>();
    let location = use_location();
    let location = Where {
        path: location.pathname,
        search: location.search,
        hash: location.hash,
    };
    Effect::new(move |_| {
        if let Some(leaving) = leaving {
            leaving.0.set_value(Some(Form {
                question: Callback::new(move |to: String| {
                    question(&shown_address(location), &to, inputs, saved)
                }),
                at: Callback::new(move |()| shown_address(location)),
            }));
        }
        let unload = window_event_listener(ev::beforeunload, move |event| {
            if is_dirty.get_untracked() && !sending.get_untracked() {
                event.prevent_default();
            }
        });
        let click = Captured::new("click", move |event| {
            let lost = element(event)
                .and_then(|element| element.closest("a[href]").ok().flatten())
                .filter(|link| !goes_elsewhere(event, link))
                .and_then(|link| link.get_attribute("href"))
                .and_then(|href| question(&shown_address(location), &href, inputs, saved));
            if lost.is_some_and(|lost| !agrees(lost)) {
                stay(event);
            }
        });
        let submit = Captured::new("submit", move |event| {
            let asks = element(event)
                .and_then(|form| form.closest(&format!("[{LEAVES}]")).ok().flatten())
                .and_then(|holder| holder.get_attribute(LEAVES));
            if asks.is_some_and(|asks| is_dirty.get_untracked() && !agrees(&asks)) {
                stay(event);
            }
        });
        on_cleanup(move || {
            unload.remove();
            drop((click, submit));
        });
    });
}

/// The address of the page that is shown, as the router has it: the browser's own is another one on the way in and out.
#[derive(Clone, Copy)]
struct Where {
    path: Memo<String>,
    search: Memo<String>,
    hash: Memo<String>,
}

fn shown_address(at: Where) -> Address {
    let mut page = at.path.get_untracked();
    let search = at.search.get_untracked();
    if !search.is_empty() {
        page = format!("{page}?{search}");
    }
    let whole = page.clone() + &at.hash.get_untracked();
    Address { page, whole }
}

struct Address {
    /// Path and query: another one is another page.
    page: String,
    /// With the place in the page.
    whole: String,
}

/// Path and query that the browser shows.
fn address() -> String {
    let location = window().location();
    let part = |part: Result<String, _>| part.unwrap_or_default();
    part(location.pathname()) + &part(location.search())
}

fn element(event: &web_sys::Event) -> Option<web_sys::Element> {
    event.target()?.dyn_into().ok()
}

fn stay(event: &web_sys::Event) {
    event.prevent_default();
    event.stop_immediate_propagation();
}

/// A listener of the window in the capture phase, before the router and the forms hear of it; gone when it is dropped.
struct Captured {
    kind: &'static str,
    closure: send_wrapper::SendWrapper<wasm_bindgen::closure::Closure<dyn Fn(web_sys::Event)>>,
}

impl Captured {
    fn new(kind: &'static str, hear: impl Fn(&web_sys::Event) + 'static) -> Self {
        let closure = wasm_bindgen::closure::Closure::<dyn Fn(web_sys::Event)>::new(
            move |event: web_sys::Event| hear(&event),
        );
        // The window takes listeners.
        let _ = window().add_event_listener_with_callback_and_bool(
            kind,
            closure.as_ref().unchecked_ref(),
            true,
        );
        let closure = send_wrapper::SendWrapper::new(closure);
        Self { kind, closure }
    }
}

impl Drop for Captured {
    fn drop(&mut self) {
        let _ = window().remove_event_listener_with_callback_and_bool(
            self.kind,
            self.closure.as_ref().unchecked_ref(),
            true,
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_in_the_page_is_no_other_page() {
        for (at, to, wanted) in [
            ("/environments/1", "#setup-test", true),
            ("/environments/1", "", true),
            ("/environments/1", "/environments/1#script-L7", true),
            (
                "/environments/1?not_tested=x",
                "/environments/1#script-L7",
                true,
            ),
            ("/environments/1", "/environments/1", true),
            ("/environments/1", "/environments/12", false),
            ("/environments/1", "/environments/1/history", false),
            (
                "/environments/1",
                "https://example.com/environments/1",
                false,
            ),
            ("/environments/new", "/environments/new#name", true),
            (
                "/environments/new",
                "/environments/new?template=node",
                false,
            ),
            (
                "/environments/new?template=node",
                "/environments/new",
                false,
            ),
            (
                "/environments/new?template=node",
                "/environments/new?template=node",
                true,
            ),
        ] {
            assert_eq!(stays_on(at, to), wanted, "{at} {to}");
        }
    }
}
