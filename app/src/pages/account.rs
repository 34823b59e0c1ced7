//! One's own account: name, password, sign-ins, API keys.

use leptos::prelude::*;

use crate::{
    api::{
        page_data,
        signing::{ChangeDisplayName, ChangePassword, SignOutEverywhere, load_frame},
    },
    components::{
        Alert, Errors, Failure, Icon, Loading, PageHead, Submit, TextField, Tone, basics::alive,
    },
    pages::{
        console::{FrameData, keys_are_on, turn_keys},
        gates::NewPassword,
        keys::Keys,
    },
};

/// The page.
#[component]
pub fn AccountPage() -> impl IntoView {
    // Not the console's, which is loaded again after a change of the name: what is typed here outlives that.
    let frame = page_data(|| (), |()| load_frame());
    view! {
        <Suspense fallback=Loading>
            {move || Suspend::new(async move {
                match frame.await {
                    Err(error) => view! { <Failure error /> }.into_any(),
                    Ok(frame) => {
                        let viewer = frame.viewer;
                        view! {
                            <div class="page page-narrow">
                                <PageHead
                                    title="Account"
                                    sub=format!("{} · {} of {}", viewer.email, viewer.role, viewer.organization_name)
                                />
                                <Name name=viewer.display_name />
                                <Password />
                                <Keys everyones=false />
                                <SignIns />
                                <Shortcuts />
                            </div>
                        }
                            .into_any()
                    }
                }
            })}
        </Suspense>
    }
}

#[component]
fn Name(name: String) -> impl IntoView {
    let action = ServerAction::<ChangeDisplayName>::new();
    provide_context(Errors::of(move || action.value().get()));
    let value = RwSignal::new(name);
    let frame = use_context::<FrameData>();
    Effect::new(move |_| {
        if let (Some(Ok(_)), Some(frame)) = (action.value().get(), frame) {
            frame.0.refetch();
        }
    });
    view! {
        <Card title="Name">
            <ActionForm action>
                <div class="flex flex-wrap items-end gap-3">
                    <div class="flex-1 min-w-48 max-w-sm">
                        <TextField
                            id="display_name"
                            name="name"
                            label="Display name"
                            value
                            path="display_name"
                            autocomplete="name"
                            maxlength=100
                        />
                    </div>
                    <Submit label="Save name" busy=action.pending() />
                </div>
                <Told value=Signal::derive(move || action.value().get()) done="Saved." />
            </ActionForm>
        </Card>
    }
    .into_any()
}

#[component]
fn Password() -> impl IntoView {
    let action = ServerAction::<ChangePassword>::new();
    provide_context(Errors::of(move || action.value().get()));
    view! {
        <Card title="Password">
            <ActionForm action>
                <div class="flex flex-col gap-3 max-w-sm">
                    <TextField
                        id="current"
                        name="current"
                        label="Current password"
                        kind="password"
                        path="current"
                        autocomplete="current-password"
                        required=true
                    />
                    <NewPassword name="new" />
                    <div>
                        <Submit label="Change password" busy=action.pending() />
                    </div>
                    <p class="field-hint">"Every other sign-in of yours ends."</p>
                </div>
                <Told value=Signal::derive(move || action.value().get()) done="The password was changed." />
            </ActionForm>
        </Card>
    }
    .into_any()
}

#[component]
fn SignIns() -> impl IntoView {
    let action = ServerAction::<SignOutEverywhere>::new();
    view! {
        <Card title="Sign-ins">
            <ActionForm action>
                <p class="text-ink-2 mb-3">"Ends your sign-ins in all other browsers. API keys stay."</p>
                <Submit label="Sign out everywhere else" icon=Icon::LogOut busy=action.pending() />
                <Told value=Signal::derive(move || action.value().get()) done="All other sign-ins are over." />
            </ActionForm>
        </Card>
    }
    .into_any()
}

/// Whether single keys are shortcuts: of this browser, and a matter of its script alone.
#[component]
fn Shortcuts() -> impl IntoView {
    let alive = alive();
    view! {
        <Show when=move || alive.get()>
            <Card title="Keyboard">
                <label class="check">
                    <input
                        type="checkbox"
                        prop:checked=keys_are_on()
                        on:change:target=move |event| turn_keys(event.target().checked())
                    />
                    "Single keys are shortcuts in this browser"
                </label>
            </Card>
        </Show>
    }
    .into_any()
}

/// A titled card.
#[component]
pub fn Card(
    /// Heading.
    title: &'static str,
    /// Body.
    children: Children,
) -> impl IntoView {
    view! {
        <section class="card">
            <div class="card-head">
                <h2 class="card-title">{title}</h2>
            </div>
            <div class="card-body">{children()}</div>
        </section>
    }
    .into_any()
}

/// What an action answered: a sentence when it is done, the refusal when it is not.
#[component]
pub fn Told<T: Clone + Send + Sync + 'static>(
    /// The answer.
    value: Signal<Option<Result<T, crate::api::AppError>>>,
    /// Said when it is done.
    done: &'static str,
) -> impl IntoView {
    view! {
        <div aria-live="polite" class="mt-3 empty:hidden">
            {move || match value.get() {
                None => ().into_any(),
                Some(Ok(_)) => view! { <Alert tone=Tone::Good>{done}</Alert> }.into_any(),
                Some(Err(error)) => view! { <Alert tone=Tone::Bad>{error.to_string()}</Alert> }.into_any(),
            }}
        </div>
    }
    .into_any()
}
