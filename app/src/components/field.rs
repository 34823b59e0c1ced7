//! Form fields: label, hint, error. They keep what was typed before the page came alive, and follow changes made by it.

use leptos::{html, prelude::*};

use super::icons::{Draw, Icon};
use crate::{api::AppError, text::raw};

/// The refusal that the fields of a form look themselves up in.
#[derive(Clone, Copy)]
pub struct Errors(pub Signal<Option<AppError>>);

impl Errors {
    /// Of the form around; none outside of one.
    fn around(path: &'static str) -> Signal<Option<String>> {
        let errors = use_context::<Self>();
        Signal::derive(move || errors?.0.with(|error| error.as_ref()?.field(path)))
    }

    /// Whether exactly this path was refused, for fields that are refused together.
    fn are_refused(together: Option<Together>) -> Signal<bool> {
        let errors = use_context::<Self>();
        Signal::derive(move || {
            let (Some((path, _)), Some(errors)) = (together, errors) else {
                return false;
            };
            let at = |error: &AppError| error.issues().iter().any(|(at, _)| at == path);
            errors.0.with(|error| error.as_ref().is_some_and(at))
        })
    }

    /// Of an action's answer.
    pub fn of<T: Clone + Send + Sync + 'static>(
        value: impl Fn() -> Option<Result<T, AppError>> + Send + Sync + 'static,
    ) -> Self {
        Self(Signal::derive(move || value()?.err()))
    }

    /// The refusal that no single field explains.
    pub fn whole(self) -> Signal<Option<AppError>> {
        Signal::derive(move || self.0.get().filter(|error| error.issues().is_empty()))
    }
}

/// The message of a field.
#[component]
pub fn FieldError(
    /// Id, for `aria-describedby`.
    id: String,
    /// The message.
    #[prop(into)]
    message: Signal<Option<String>>,
) -> impl IntoView {
    view! {
        <p class="field-error" id=id hidden=move || message.with(Option::is_none)>
            <Draw icon=Icon::TriangleAlert />
            <span>{move || message.get()}</span>
        </p>
    }
}

macro_rules! bind {
    ($name:ident, $element:ty) => {
        /// Ties an input to a signal: what was typed before the page came alive wins, later changes go both ways.
        pub fn $name(node: NodeRef<$element>, value: RwSignal<String>) {
            Effect::new(move |before: Option<()>| {
                let Some(input) = node.get() else { return };
                let wanted = value.get();
                if input.value() == wanted {
                    return;
                }
                if before.is_none() {
                    value.set(input.value());
                } else {
                    input.set_value(&wanted);
                }
            });
        }
    };
}
bind!(bind_input, html::Input);
bind!(bind_text, html::Textarea);
bind!(bind_select, html::Select);

/// A refusal of several fields together, which one message tells: its path, and the message's id.
pub type Together = (&'static str, &'static str);

fn describe(id: &str, hint: &str, together: Option<Together>) -> String {
    let mut ids = format!("{id}-error");
    if let Some((_, message)) = together {
        ids = format!("{ids} {message}");
    }
    if !hint.is_empty() {
        ids = format!("{ids} {id}-hint");
    }
    ids
}

#[component]
fn Label(id: String, label: String, optional: bool) -> impl IntoView {
    view! {
        <label class="field-label" for=id>
            {label} {optional.then(|| view! { <span class="field-optional">" optional"</span> })}
        </label>
    }
}

#[component]
fn Hint(id: String, hint: String) -> impl IntoView {
    (!hint.is_empty()).then(|| view! { <p class="field-hint" id=format!("{id}-hint")>{hint}</p> })
}

/// One line of text, a number, a password.
#[component]
pub fn TextField(
    /// Id, unique in the page.
    #[prop(into)]
    id: String,
    /// Name in the form.
    #[prop(into)]
    name: String,
    /// Label.
    #[prop(into)]
    label: String,
    /// The text; a signal of its own if left out.
    #[prop(optional)]
    value: Option<RwSignal<String>>,
    /// Under the input.
    #[prop(optional, into)]
    hint: String,
    /// Path of its errors.
    #[prop(optional)]
    path: &'static str,
    /// Type.
    #[prop(default = "text")]
    kind: &'static str,
    /// In the empty input.
    #[prop(optional, into)]
    placeholder: String,
    /// What browsers fill in.
    #[prop(default = "off")]
    autocomplete: &'static str,
    /// Keyboard of telephones.
    #[prop(optional)]
    inputmode: Option<&'static str>,
    /// Must be filled in.
    #[prop(optional)]
    required: bool,
    /// Says so beside the label.
    #[prop(optional)]
    optional: bool,
    /// Only to read.
    #[prop(optional)]
    readonly: bool,
    /// Takes the focus when the page opens.
    #[prop(optional)]
    autofocus: bool,
    /// Least length, for passwords.
    #[prop(optional)]
    minlength: Option<u32>,
    /// Most characters.
    #[prop(optional)]
    maxlength: Option<u32>,
    /// What it is refused in together with other fields.
    #[prop(optional)]
    together: Option<Together>,
) -> impl IntoView {
    let value = value.unwrap_or_else(|| RwSignal::new(String::new()));
    let node: NodeRef<html::Input> = NodeRef::new();
    bind_input(node, value);
    let error = Errors::around(path);
    let are_refused = Errors::are_refused(together);
    view! {
        <div class="field">
            <Label id=id.clone() label optional />
            <input
                class="input"
                node_ref=node
                id=id.clone()
                name=name
                type=kind
                value=value.get_untracked()
                placeholder=placeholder
                autocomplete=autocomplete
                inputmode=inputmode
                required=required
                readonly=readonly
                autofocus=autofocus
                minlength=minlength
                maxlength=maxlength
                aria-invalid=move || (are_refused.get() || error.with(Option::is_some)).then_some("true")
                aria-describedby=describe(&id, &hint, together)
                on:input:target=move |event| value.set(event.target().value())
            />
            <FieldError id=format!("{id}-error") message=error />
            <Hint id hint />
        </div>
    }
    .into_any()
}

/// Several lines of text.
#[component]
pub fn TextArea(
    /// Id, unique in the page.
    #[prop(into)]
    id: String,
    /// Name in the form.
    #[prop(into)]
    name: String,
    /// Label.
    #[prop(into)]
    label: String,
    /// The text.
    value: RwSignal<String>,
    /// Under the input.
    #[prop(optional, into)]
    hint: String,
    /// Path of its errors.
    path: &'static str,
    /// In the empty input.
    #[prop(optional, into)]
    placeholder: String,
    /// Monospaced.
    #[prop(optional)]
    code: bool,
    /// Says so beside the label.
    #[prop(optional)]
    optional: bool,
    /// Only to read.
    #[prop(optional)]
    readonly: bool,
    /// Rows.
    #[prop(default = 3)]
    rows: u32,
) -> impl IntoView {
    let node: NodeRef<html::Textarea> = NodeRef::new();
    bind_text(node, value);
    let error = Errors::around(path);
    view! {
        <div class="field">
            <Label id=id.clone() label optional />
            <textarea
                class="input"
                class:input-code=code
                node_ref=node
                id=id.clone()
                name=name
                rows=rows.to_string()
                placeholder=placeholder
                readonly=readonly
                spellcheck=if code { "false" } else { "true" }
                aria-invalid=move || error.with(Option::is_some).then_some("true")
                aria-describedby=describe(&id, &hint, None)
                on:input:target=move |event| value.set(event.target().value())
            >
                {raw(&value.get_untracked())}
            </textarea>
            <FieldError id=format!("{id}-error") message=error />
            <Hint id hint />
        </div>
    }
    .into_any()
}

/// One of several.
#[component]
pub fn Select(
    /// Id, unique in the page.
    #[prop(into)]
    id: String,
    /// Name in the form.
    #[prop(into)]
    name: String,
    /// Label.
    #[prop(into)]
    label: String,
    /// The choice.
    value: RwSignal<String>,
    /// Values with their labels.
    options: Vec<(String, String)>,
    /// Under the input.
    #[prop(optional, into)]
    hint: String,
    /// Path of its errors.
    #[prop(optional)]
    path: &'static str,
    /// Cannot be changed.
    #[prop(optional)]
    disabled: bool,
) -> impl IntoView {
    let node: NodeRef<html::Select> = NodeRef::new();
    bind_select(node, value);
    let error = Errors::around(path);
    let chosen = value.get_untracked();
    view! {
        <div class="field">
            <Label id=id.clone() label optional=false />
            <select
                class="input"
                node_ref=node
                id=id.clone()
                name=name
                disabled=disabled
                aria-invalid=move || error.with(Option::is_some).then_some("true")
                aria-describedby=describe(&id, &hint, None)
                on:change:target=move |event| value.set(event.target().value())
            >
                {options
                    .into_iter()
                    .map(|(word, label)| {
                        let selected = word == chosen;
                        view! {
                            <option value=word selected=selected>
                                {label}
                            </option>
                        }
                    })
                    .collect_view()}
            </select>
            <FieldError id=format!("{id}-error") message=error />
            <Hint id hint />
        </div>
    }
    .into_any()
}

/// On or off; `on` in the form, or nothing.
#[component]
pub fn Switch(
    /// Id, unique in the page.
    #[prop(into)]
    id: String,
    /// Name in the form.
    #[prop(into)]
    name: String,
    /// Label.
    #[prop(into)]
    label: String,
    /// `on` or empty.
    value: RwSignal<String>,
    /// Under the label.
    #[prop(optional, into)]
    hint: String,
    /// Path of its errors.
    #[prop(optional)]
    path: &'static str,
    /// Cannot be changed.
    #[prop(optional, into)]
    disabled: Signal<bool>,
) -> impl IntoView {
    let node: NodeRef<html::Input> = NodeRef::new();
    Effect::new(move |before: Option<()>| {
        let Some(input) = node.get() else { return };
        let wanted = crate::draft::is_on(&value.get());
        if input.checked() == wanted {
            return;
        }
        if before.is_none() {
            value.set(word(input.checked()));
        } else {
            input.set_checked(wanted);
        }
    });
    let error = Errors::around(path);
    view! {
        <div class="field">
            <div class="check">
                <input
                    node_ref=node
                    type="checkbox"
                    id=id.clone()
                    name=name
                    value="on"
                    checked=crate::draft::is_on(&value.get_untracked())
                    disabled=move || disabled.get()
                    aria-invalid=move || error.with(Option::is_some).then_some("true")
                    aria-describedby=describe(&id, &hint, None)
                    on:change:target=move |event| value.set(word(event.target().checked()))
                />
                <div>
                    <label class="font-medium" for=id.clone()>
                        {label}
                    </label>
                    <Hint id=id.clone() hint />
                </div>
            </div>
            <FieldError id=format!("{id}-error") message=error />
        </div>
    }
    .into_any()
}

fn word(on: bool) -> String {
    if on { "on" } else { "" }.to_owned()
}

/// Moves the focus to the first field that was refused, and opens the sections it lies in.
pub fn focus_first_error() {
    use wasm_bindgen::JsCast as _;
    // After the messages were put in place.
    request_animation_frame(|| {
        let find = |selector| document().query_selector(selector).ok().flatten();
        let found = find("[aria-invalid=\"true\"]").or_else(|| find("[data-refusal]"));
        let Some(element) =
            found.and_then(|element| element.dyn_into::<web_sys::HtmlElement>().ok())
        else {
            return;
        };
        let mut around = element.parent_element();
        while let Some(parent) = around {
            if parent.tag_name() == "DETAILS" {
                // Setting an attribute of an element in the document does not fail.
                let _ = parent.set_attribute("open", "");
            }
            around = parent.parent_element();
        }
        let _ = element.focus();
    });
}

#[cfg(all(test, feature = "ssr"))]
mod tests {
    use serde_json::json;
    use wire::error::{ApiError, Code};

    use super::*;

    /// What a page says where this path was refused.
    fn refused_at(path: &str, show: impl FnOnce() -> AnyView) -> String {
        let mut details = serde_json::Map::new();
        details.insert("issues".to_owned(), json!([format!("{path}: No.")]));
        let error = AppError::from(ApiError {
            code: Code::InvalidRequest,
            message: "No.".to_owned(),
            details,
            retry_after: None,
        });
        Owner::new().with(|| {
            provide_context(Errors(Signal::stored(Some(error))));
            show().to_html()
        })
    }

    const INVALID: &str = "aria-invalid=\"true\"";

    #[test]
    fn a_refused_switch_says_that_it_is_refused() {
        let switch = || {
            let value = RwSignal::new("on".to_owned());
            view! { <Switch id="docker" name="docker" label="Docker" value path="privileged" /> }
                .into_any()
        };
        let page = refused_at("privileged", switch);
        assert!(page.contains(INVALID), "{page}");
        assert!(page.contains("aria-describedby=\"docker-error\""), "{page}");
        assert!(!refused_at("name", switch).contains(INVALID));
    }

    #[test]
    fn fields_that_are_refused_together_say_so_and_name_the_message() {
        let field = || {
            view! {
                <TextField
                    id="cpu"
                    name="cpu"
                    label="vCPU"
                    path="resources.cpu_milli"
                    together=("resources", "resources-error")
                />
            }
            .into_any()
        };
        for (path, wanted) in [
            ("resources", true),
            ("resources.cpu_milli", true),
            ("resources.memory_mib", false),
        ] {
            let page = refused_at(path, field);
            assert_eq!(page.contains(INVALID), wanted, "{path}: {page}");
            assert!(
                page.contains("aria-describedby=\"cpu-error resources-error\""),
                "{page}"
            );
        }
    }
}
