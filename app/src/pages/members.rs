//! Members and invitations; for admins.

use domain::roles::Role;
use leptos::prelude::*;
use wire::console::{InvitationItem, MemberItem};

use crate::{
    api::{
        admin::{
            ChangeRole, Invite, MembersPage as MembersData, RemoveMember, WithdrawInvitation,
            load_members,
        },
        page_data,
    },
    components::{
        Alert, Copy, Errors, Failure, Icon, Loading, PageHead, Refused, Select, Submit, TextField,
        Tone,
    },
    format,
    live::now::{Ago, Now, local_text},
    pages::account::{Card, Told},
    text::shown,
};

/// The page.
#[component]
pub fn MembersPage() -> impl IntoView {
    let invite = ServerAction::<Invite>::new();
    let withdraw = ServerAction::<WithdrawInvitation>::new();
    let change = ServerAction::<ChangeRole>::new();
    let remove = ServerAction::<RemoveMember>::new();
    // Whom the link is for: the list is made anew once there is one.
    let whom = RwSignal::new(String::new());
    Effect::new(move |_| {
        if let Some(asked) = invite.input().get() {
            whom.set(asked.email);
        }
    });
    let members = page_data(
        move || {
            (
                invite.version().get(),
                withdraw.version().get(),
                change.version().get(),
                remove.version().get(),
            )
        },
        |_| load_members(),
    );
    view! {
        <Transition fallback=Loading>
            {move || Suspend::new(async move {
                match members.await {
                    Err(error) => view! { <Failure error /> }.into_any(),
                    Ok(page) => view! { <Listed page invite whom withdraw change remove /> }.into_any(),
                }
            })}
        </Transition>
    }
}

#[component]
fn Listed(
    page: MembersData,
    invite: ServerAction<Invite>,
    whom: RwSignal<String>,
    withdraw: ServerAction<WithdrawInvitation>,
    change: ServerAction<ChangeRole>,
    remove: ServerAction<RemoveMember>,
) -> impl IntoView {
    provide_context(Now::start(page.now_micros));
    let invitations = page.invitations;
    view! {
        <div class="page">
            <PageHead
                title="Members"
                sub="Admins do everything, developers change and test environments, users only look."
            />
            <InviteForm invite whom invited=page.invited />
            <section class="card" aria-label="Members">
                <div class="px-4 empty:hidden">
                    <Told value=Signal::derive(move || change.value().get()) done="The role was changed." />
                    <Told value=Signal::derive(move || remove.value().get()) done="The member was removed." />
                </div>
                <table class="table table-stack">
                    <thead>
                        <tr>
                            <th scope="col">"Member"</th>
                            <th scope="col">"Role"</th>
                            <th scope="col">"Since"</th>
                            <th scope="col">
                                <span class="visually-hidden">"Actions"</span>
                            </th>
                        </tr>
                    </thead>
                    <tbody>{page.members.into_iter().map(|member| member_row(member, change, remove)).collect_view()}</tbody>
                </table>
            </section>
            {(!invitations.is_empty())
                .then(|| {
                    view! {
                        <section class="card" aria-labelledby="invitations-title">
                            <div class="card-head">
                                <h2 id="invitations-title" class="card-title">
                                    "Open invitations"
                                </h2>
                            </div>
                            <table class="table table-stack">
                                <thead>
                                    <tr>
                                        <th scope="col">"E-mail address"</th>
                                        <th scope="col">"Role"</th>
                                        <th scope="col">"Invited by"</th>
                                        <th scope="col">"Ends"</th>
                                        <th scope="col">
                                            <span class="visually-hidden">"Actions"</span>
                                        </th>
                                    </tr>
                                </thead>
                                <tbody>
                                    {invitations.into_iter().map(|item| invitation_row(item, withdraw)).collect_view()}
                                </tbody>
                            </table>
                        </section>
                    }
                })}
        </div>
    }
    .into_any()
}

fn roles() -> Vec<(String, String)> {
    Role::ALL
        .into_iter()
        .rev()
        .map(|role| (role.to_string(), role.to_string()))
        .collect()
}

#[component]
fn InviteForm(
    invite: ServerAction<Invite>,
    whom: RwSignal<String>,
    invited: Option<String>,
) -> impl IntoView {
    let errors = Errors::of(move || invite.value().get());
    provide_context(errors);
    let role = RwSignal::new(Role::Developer.to_string());
    let path = Signal::derive(move || match invite.value().get() {
        Some(Ok(path)) => Some(path),
        _ => invited.clone(),
    });
    view! {
        <Card title="Invite somebody">
            <ActionForm action=invite>
                <div class="grid gap-3 sm:grid-cols-[minmax(0,1fr)_10rem_auto] items-end max-w-3xl">
                    <TextField
                        id="invite-email"
                        name="email"
                        label="E-mail address"
                        path="email"
                        kind="email"
                        required=true
                    />
                    <Select id="invite-role" name="role" label="Role" value=role options=roles() path="role" />
                    <Submit label="Create invitation" icon=Icon::Link busy=invite.pending() />
                </div>
                <p class="field-hint mt-2">"No e-mail is sent: you get a link, and send it yourself."</p>
            </ActionForm>
            <div class="mt-3">
                <Refused error=errors.whole() />
            </div>
            {move || {
                path.get()
                    .map(|path| {
                        let link = whole(path);
                        let to = match whom.get_untracked() {
                            whom if whom.is_empty() => String::new(),
                            whom => format!(" to {}", shown(&whom)),
                        };
                        view! {
                            <div class="mt-3">
                                <Alert tone=Tone::Good title=format!("Send this link{to}: it is not shown again, and works for seven days.")>
                                    <div class="once mt-1.5">
                                        <code class="flex-1 break-all">{move || link.get()}</code>
                                        <Copy text=link label="Copy the link" />
                                    </div>
                                </Alert>
                            </div>
                        }
                    })
            }}
        </Card>
    }
    .into_any()
}

/// The link with this site's origin, which only the browser knows for sure.
fn whole(path: String) -> Signal<String> {
    let link = RwSignal::new(path.clone());
    Effect::new(move |_| {
        if let Ok(origin) = window().location().origin() {
            link.set(format!("{origin}{path}"));
        }
    });
    link.into()
}

fn member_row(
    member: MemberItem,
    change: ServerAction<ChangeRole>,
    remove: ServerAction<RemoveMember>,
) -> impl IntoView {
    let id = member.user_id;
    let current = member.role;
    let label = format!("Role of {}", member.email);
    let remove_label = format!("Remove {}", member.email);
    view! {
        <tr>
            <td class="cell-title">
                <span class="flex flex-wrap items-center gap-x-2">
                    <span class="font-medium break-words">
                        {shown(if member.display_name.is_empty() { &member.email } else { &member.display_name })}
                    </span>
                    {member.is_you.then(|| view! { <span class="badge badge-plain">"you"</span> })}
                    {(!member.has_password).then(|| view! { <span class="badge badge-plain">"API keys only"</span> })}
                </span>
                {(!member.display_name.is_empty()).then(|| view! { <span class="text-xs text-ink-3">{shown(&member.email)}</span> })}
            </td>
            <td data-label="Role">
                <ActionForm action=change>
                    <input type="hidden" name="user_id" value=id.to_string() />
                    <span class="flex items-center gap-1.5">
                        <select class="input w-32" name="role" aria-label=label>
                            {Role::ALL
                                .into_iter()
                                .rev()
                                .map(|role| {
                                    view! {
                                        <option value=role.as_str() selected=role == current>
                                            {role.as_str()}
                                        </option>
                                    }
                                })
                                .collect_view()}
                        </select>
                        <button type="submit" class="button button-small">
                            "Change"
                        </button>
                    </span>
                </ActionForm>
            </td>
            <td data-label="Since" class="text-ink-2 whitespace-nowrap">
                <Ago at=member.created_at />
            </td>
            <td class="actions">
                {(!member.is_you)
                    .then(|| {
                        view! {
                            <ActionForm action=remove>
                                <input type="hidden" name="user_id" value=id.to_string() />
                                <button
                                    type="submit"
                                    class="button button-small"
                                    aria-label=remove_label
                                    on:click=|event| {
                                        let sure = window()
                                            .confirm_with_message("Remove this member? Their sign-ins and API keys end at once.")
                                            .unwrap_or(true);
                                        if !sure {
                                            event.prevent_default();
                                        }
                                    }
                                >
                                    "Remove"
                                </button>
                            </ActionForm>
                        }
                    })}
            </td>
        </tr>
    }
}

fn invitation_row(
    item: InvitationItem,
    withdraw: ServerAction<WithdrawInvitation>,
) -> impl IntoView {
    let label = format!("Withdraw the invitation of {}", item.email);
    let exact = local_text(item.expires_at);
    view! {
        <tr>
            <td class="cell-title font-medium wrap-anywhere">{shown(&item.email)}</td>
            <td data-label="Role">{item.role.to_string()}</td>
            <td data-label="Invited by" class="wrap-anywhere">{item.invited_by}</td>
            <td data-label="Ends" class="text-ink-2 whitespace-nowrap">
                <span title=exact>
                    {if item.expired {
                        "over".to_owned()
                    } else {
                        format::exact_utc(item.expires_at).chars().take(10).collect()
                    }}
                </span>
            </td>
            <td class="actions">
                <ActionForm action=withdraw>
                    <input type="hidden" name="invitation_id" value=item.invitation_id.to_string() />
                    <button type="submit" class="button button-small" aria-label=label>
                        "Withdraw"
                    </button>
                </ActionForm>
            </td>
        </tr>
    }
}
