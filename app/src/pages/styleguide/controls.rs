//! What one presses, chooses and fills in.

use leptos::{context::Provider, prelude::*};
use serde_json::json;
use wire::error::Code;

use super::{Part, Specimen, State, lists::Lists};
use crate::{
    api::AppError,
    components::{
        Copy, CopyId, Dialog, Draw, Errors, FieldError, Icon, Menu, Select, Submit, Switch,
        TextArea, TextField,
    },
};

/// A refusal of the fields whose path is `sample`.
fn refusal() -> Errors {
    let mut error = AppError::new(Code::InvalidRequest, "Not saved.");
    let lines = json!(["sample: Give it a name that is not taken."]);
    error.0.details.insert("issues".to_owned(), lines);
    Errors(Signal::stored(Some(error)))
}

fn text(of: &str) -> RwSignal<String> {
    RwSignal::new(of.to_owned())
}

/// Buttons and fields.
#[component]
pub fn Controls() -> impl IntoView {
    view! {
        <Part title="Controls">
            <Buttons />
            <Fields />
            <Lists />
            <Overlays />
        </Part>
    }
    .into_any()
}

#[component]
fn Buttons() -> impl IntoView {
    let kinds = [
        ("Default", ""),
        ("Primary", "button-primary"),
        ("Danger", "button-danger"),
        ("Ghost", "button-ghost"),
        ("Small", "button-small"),
    ];
    let rows = kinds
        .into_iter()
        .map(|(name, class)| {
            view! {
                <div class="flex flex-wrap gap-4 w-full">
                    <p class="w-20 text-sm text-ink-2 self-end py-1.5">{name}</p>
                    <State name="default">
                        <Submit label="Save" class icon=Icon::Check />
                    </State>
                    <State name="hover" class="show-hover">
                        <Submit label="Save" class icon=Icon::Check />
                    </State>
                    <State name="focus" class="show-focus">
                        <Submit label="Save" class icon=Icon::Check />
                    </State>
                    <State name="active" class="show-active">
                        <Submit label="Save" class icon=Icon::Check />
                    </State>
                    <State name="disabled">
                        <Submit label="Save" class icon=Icon::Check refused="Change something first" />
                    </State>
                    <State name="busy">
                        <Submit label="Save" class icon=Icon::Check busy=true />
                    </State>
                </div>
            }
        })
        .collect_view();
    view! {
        <Specimen title="Submit, .button">
            {rows}
            <div class="flex flex-wrap gap-4 w-full">
                <p class="w-20 text-sm text-ink-2 self-end py-1.5">"Icon"</p>
                <State name="default">
                    <IconButton />
                </State>
                <State name="hover" class="show-hover">
                    <IconButton />
                </State>
                <State name="focus" class="show-focus">
                    <IconButton />
                </State>
                <State name="active" class="show-active">
                    <IconButton />
                </State>
                <State name="disabled">
                    <IconButton disabled=true />
                </State>
                <State name="chosen">
                    <IconButton pressed=true />
                </State>
            </div>
        </Specimen>
        <Specimen title="Copy, CopyId">
            <State name="icon">
                <Copy text="019a0000" label="Copy the sample" />
            </State>
            <State name="with a caption">
                <Copy text="019a0000" label="Copy the other sample" caption="Copy" />
            </State>
            <State name="an id">
                <CopyId short="019a0000".to_owned() whole="019a0000-0000-7000-8000-000000000001".to_owned() />
            </State>
        </Specimen>
    }
}

#[component]
fn IconButton(#[prop(optional)] disabled: bool, #[prop(optional)] pressed: bool) -> impl IntoView {
    view! {
        <button
            type="button"
            class="button button-icon"
            aria-label="Run"
            disabled=disabled
            aria-pressed=pressed.then_some("true")
        >
            <Draw icon=Icon::Play />
        </button>
    }
}

#[component]
fn Fields() -> impl IntoView {
    let options = || {
        vec![
            ("cpu".to_owned(), "CPU".to_owned()),
            ("gpu".to_owned(), "GPU".to_owned()),
        ]
    };
    view! {
        <Specimen title="TextField">
            <State name="default">
                <TextField id="sg-1" name="s" label="Name" placeholder="data-analysis" hint="At most 256 characters." />
            </State>
            <State name="hover" class="show-hover">
                <TextField id="sg-2" name="s" label="Name" value=text("data") />
            </State>
            <State name="focus" class="show-focus">
                <TextField id="sg-3" name="s" label="Name" value=text("data") />
            </State>
            <State name="only to read">
                <TextField id="sg-4" name="s" label="Name" value=text("data") readonly=true />
            </State>
            <State name="optional">
                <TextField id="sg-5" name="s" label="Name" optional=true />
            </State>
            <State name="error">
                <Provider value=refusal()>
                    <TextField id="sg-6" name="s" label="Name" value=text("data") path="sample" hint="At most 256 characters." />
                </Provider>
            </State>
        </Specimen>
        <Specimen title="TextArea">
            <State name="default" class="flex-1 basis-48">
                <TextArea id="sg-7" name="s" label="Description" value=text("") path="none" />
            </State>
            <State name="code, focus" class="flex-1 basis-48 show-focus">
                <TextArea id="sg-8" name="s" label="Variables" value=text("A=1\nB=2") path="none" code=true />
            </State>
            <State name="only to read" class="flex-1 basis-48">
                <TextArea id="sg-9" name="s" label="Description" value=text("As saved.") path="none" readonly=true />
            </State>
            <State name="error" class="flex-1 basis-48">
                <Provider value=refusal()>
                    <TextArea id="sg-10" name="s" label="Description" value=text("x") path="sample" />
                </Provider>
            </State>
        </Specimen>
        <Specimen title="Select">
            <State name="default" class="w-48">
                <Select id="sg-11" name="s" label="Compute kind" value=text("cpu") options=options() />
            </State>
            <State name="hover" class="w-48 show-hover">
                <Select id="sg-12" name="s" label="Compute kind" value=text("gpu") options=options() />
            </State>
            <State name="focus" class="w-48 show-focus">
                <Select id="sg-13" name="s" label="Compute kind" value=text("gpu") options=options() />
            </State>
            <State name="disabled" class="w-48">
                <Select id="sg-14" name="s" label="Compute kind" value=text("cpu") options=options() disabled=true />
            </State>
            <State name="error" class="w-48">
                <Provider value=refusal()>
                    <Select id="sg-15" name="s" label="Compute kind" value=text("cpu") options=options() path="sample" />
                </Provider>
            </State>
        </Specimen>
        <Specimen title="Switch">
            <State name="off">
                <Switch id="sg-16" name="s" label="Computer use" value=text("") hint="A desktop in the sandbox." />
            </State>
            <State name="on">
                <Switch id="sg-17" name="s" label="Computer use" value=text("on") />
            </State>
            <State name="focus" class="show-focus">
                <Switch id="sg-18" name="s" label="Computer use" value=text("on") />
            </State>
            <State name="disabled">
                <Switch id="sg-19" name="s" label="Computer use" value=text("on") disabled=true />
            </State>
            <State name="error">
                <Provider value=refusal()>
                    <Switch id="sg-20" name="s" label="Computer use" value=text("on") path="sample" />
                </Provider>
            </State>
        </Specimen>
        <Specimen title="FieldError">
            <FieldError id="sg-21".to_owned() message=Signal::stored(Some("Write a whole number.".to_owned())) />
        </Specimen>
    }
}

#[component]
fn Overlays() -> impl IntoView {
    let open = RwSignal::new(false);
    view! {
        <Specimen title="Menu">
            <State name="closed">
                <Menu id="sg-menu" label="Actions of the sample">
                    <MenuItems />
                </Menu>
            </State>
            <State name="items">
                <div class="w-48">
                    <MenuItems />
                </div>
            </State>
            <State name="items, hover" class="show-hover">
                <div class="w-48">
                    <MenuItems />
                </div>
            </State>
        </Specimen>
        <Specimen title="Dialog">
            <button type="button" class="button" on:click=move |_| open.set(true)>
                "Open the dialog"
            </button>
            <Dialog open title="Delete environment" heading_id="sg-dialog">
                <div class="dialog-body">
                    <p>"It cannot be undone. The focus stays in here until it is closed."</p>
                </div>
                <div class="dialog-foot">
                    <button type="button" class="button" on:click=move |_| open.set(false)>
                        "Cancel"
                    </button>
                    <button type="button" class="button button-danger" on:click=move |_| open.set(false)>
                        "Delete"
                    </button>
                </div>
            </Dialog>
        </Specimen>
    }
}

#[component]
fn MenuItems() -> impl IntoView {
    view! {
        <button type="button" class="menu-item">
            <Draw icon=Icon::Pencil />
            "Edit"
        </button>
        <button type="button" class="menu-item">
            <Draw icon=Icon::FlaskConical />
            "Test setup"
        </button>
        <hr class="menu-line" />
        <button type="button" class="menu-item menu-item-danger">
            <Draw icon=Icon::Trash2 />
            "Delete"
        </button>
    }
}
