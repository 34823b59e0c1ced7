//! Pages before signing in: first start, sign-in, invitation.

use domain::roles::Role;
use leptos::prelude::*;
use leptos_router::hooks::{use_params_map, use_query_map};

use crate::{
    api::{
        AppError, page_data,
        signing::{AcceptInvitation, SetUp, SignIn, load_invitation, needs_setup},
    },
    components::{
        Alert, Errors, Failure, Gate, Loading, Refused, Submit, TextField, Tone, focus_first_error,
    },
    links,
};

/// Shows a refusal that no single field explains.
#[component]
fn Refusal(
    /// The refusal.
    #[prop(into)]
    error: Signal<Option<AppError>>,
) -> impl IntoView {
    Effect::new(move |_| {
        if error.with(Option::is_some) {
            focus_first_error();
        }
    });
    let whole = Signal::derive(move || error.get().filter(|error| error.issues().is_empty()));
    view! { <Refused error=whole /> }
}

/// Leads to where the reader belongs: `/setup` on the first start, `/sign-in` after it.
async fn belongs_here(setup: bool) -> Result<(), AppError> {
    let needed = needs_setup().await?;
    #[cfg(feature = "ssr")]
    if needed != setup {
        crate::api::door::redirect(if needed { "/setup" } else { links::SIGN_IN });
    }
    let _ = (needed, setup);
    Ok(())
}

/// First start: the organization and its first admin.
#[component]
pub fn SetUpPage() -> impl IntoView {
    let here = page_data(|| (), |()| belongs_here(true));
    let query = use_query_map();
    let action = ServerAction::<SetUp>::new();
    let errors = Errors::of(move || action.value().get());
    provide_context(errors);
    let token = RwSignal::new(query.read_untracked().get("token").unwrap_or_default());
    view! {
        <Gate title="Set up Groundwork" sub="Create your organization and its first admin. This page works once.">
            <Suspense fallback=|| ()>
                {move || Suspend::new(async move {
                    here.await.err().map(|error| view! { <Alert tone=Tone::Bad>{error.to_string()}</Alert> })
                })}
            </Suspense>
            <ActionForm action>
                <div class="card card-body flex flex-col gap-4">
                    <Refusal error=errors.0 />
                    <TextField
                        id="token"
                        name="token"
                        label="Setup token"
                        value=token
                        hint="The server printed it, with a link to this page, when it started."
                        path="token"
                        required=true
                    />
                    <TextField
                        id="organization"
                        name="organization"
                        label="Organization name"
                        path="organization_name"
                        autocomplete="organization"
                        autofocus=true
                        required=true
                        maxlength=100
                    />
                    <TextField
                        id="display_name"
                        name="display_name"
                        label="Your name"
                        path="display_name"
                        autocomplete="name"
                        optional=true
                        maxlength=100
                    />
                    <TextField
                        id="email"
                        name="email"
                        label="E-mail address"
                        path="email"
                        kind="email"
                        autocomplete="username"
                        required=true
                    />
                    <NewPassword />
                    <Submit label="Set up and sign in" class="button-primary" busy=action.pending() />
                </div>
            </ActionForm>
        </Gate>
    }
    .into_any()
}

/// A new password, with the rule beside it.
#[component]
pub fn NewPassword(
    /// Name in the form.
    #[prop(default = "password")]
    name: &'static str,
) -> impl IntoView {
    view! {
        <TextField
            id=name
            name=name
            label="New password"
            path="password"
            kind="password"
            autocomplete="new-password"
            hint="At least 10 characters."
            required=true
            minlength=10
        />
    }
}

/// Signing in.
#[component]
pub fn SignInPage() -> impl IntoView {
    let here = page_data(|| (), |()| belongs_here(false));
    let query = use_query_map();
    let action = ServerAction::<SignIn>::new();
    let errors = Errors::of(move || action.value().get());
    provide_context(errors);
    // The place in the page that was asked for never reaches the server; the browser keeps it through the redirect.
    let place = RwSignal::new(String::new());
    Effect::new(move |_| place.set(window().location().hash().unwrap_or_default()));
    let next = move || {
        query
            .read()
            .get("next")
            .filter(|path| links::local(path).is_some())
            .map(|path| path + &place.get())
            .unwrap_or_default()
    };
    view! {
        <Gate title="Sign in" sub="to Groundwork">
            <Suspense fallback=|| ()>
                {move || Suspend::new(async move {
                    here.await.err().map(|error| view! { <Alert tone=Tone::Bad>{error.to_string()}</Alert> })
                })}
            </Suspense>
            <ActionForm action>
                <div class="card card-body flex flex-col gap-4">
                    <Refusal error=errors.0 />
                    <input type="hidden" name="next" value=next />
                    <TextField
                        id="email"
                        name="email"
                        label="E-mail address"
                        path="email"
                        kind="email"
                        autocomplete="username"
                        required=true
                        autofocus=true
                    />
                    <TextField
                        id="password"
                        name="password"
                        label="Password"
                        path="password"
                        kind="password"
                        autocomplete="current-password"
                        required=true
                    />
                    <Submit label="Sign in" class="button-primary" busy=action.pending() />
                </div>
            </ActionForm>
            <p class="muted text-xs">
                "No account, or a forgotten password? Ask an admin of your organization for an invitation link."
            </p>
        </Gate>
    }
    .into_any()
}

/// Accepting an invitation.
#[component]
pub fn InvitePage() -> impl IntoView {
    let params = use_params_map();
    let token = move || params.read().get("token").unwrap_or_default();
    let invitation = page_data(token, load_invitation);
    let action = ServerAction::<AcceptInvitation>::new();
    let errors = Errors::of(move || action.value().get());
    provide_context(errors);
    view! {
        <Suspense fallback=Loading>
            {move || Suspend::new(async move {
                match invitation.await {
                    Err(error) => view! { <main id="main"><Failure error /></main> }.into_any(),
                    Ok(invitation) => {
                        let email = RwSignal::new(invitation.email.clone());
                        view! {
                            <Gate
                                title=format!("Join {}", invitation.organization_name)
                                sub=format!("You were invited with the role {}. {}", invitation.role, what_it_may(invitation.role))
                            >
                                <ActionForm action>
                                    <div class="card card-body flex flex-col gap-4">
                                        <Refusal error=errors.0 />
                                        <input type="hidden" name="token" value=token() />
                                        <TextField
                                            id="email"
                                            name=""
                                            label="E-mail address"
                                            value=email
                                            autocomplete="username"
                                            readonly=true
                                        />
                                        <TextField
                                            id="display_name"
                                            name="display_name"
                                            label="Your name"
                                            path="display_name"
                                            autocomplete="name"
                                            autofocus=true
                                            optional=true
                                            maxlength=100
                                        />
                                        <NewPassword />
                                        <Submit label="Join" class="button-primary" busy=action.pending() />
                                    </div>
                                </ActionForm>
                            </Gate>
                        }
                            .into_any()
                    }
                }
            })}
        </Suspense>
    }
    .into_any()
}

/// What a role may do, said to the one who gets it.
const fn what_it_may(role: Role) -> &'static str {
    match role {
        Role::Admin => "You may change everything, members too.",
        Role::Developer => "You may create, change and test environments, and work in sessions.",
        Role::User => "You may look at environments, runs and their logs, and change nothing.",
    }
}
