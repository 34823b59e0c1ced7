//! Members, invitations, API keys, workers, the audit log.

use domain::roles::Role::{Admin, User};
use serde_json::json;
use wire::{
    administration::{ChangeMember, CreatedApiKey, NewApiKey, NewInvitation, SentInvitation},
    console::{ApiKeyItem, AuditPage, InvitationItem, MemberItem, WorkerItem},
    managed_agents::{Deleted, Items},
};

use super::super::{
    describe::{Answer, Describe, Group::*, Kind, Parameter, call, query},
    examples,
};

pub(super) fn calls() -> Vec<Describe> {
    [members(), keys(), audit()].concat()
}

fn members() -> Vec<Describe> {
    vec![
        call("GET", "/groundwork/v1/members", "listMembers", Administration, Admin, "List members")
            .text("Oldest first.")
            .json::<Items<MemberItem>>(200, "The members.", json!({"items": [examples::member()]})),
        call("PATCH", "/groundwork/v1/members/{user_id}", "changeMember", Administration, Admin, "Change a member's role")
            .text("Takes effect at once, for sign-ins and API keys alike. The last admin keeps the role.")
            .body::<ChangeMember>(json!({"role": "developer"}))
            .json::<MemberItem>(200, "The member.", examples::member()),
        call("DELETE", "/groundwork/v1/members/{user_id}", "removeMember", Administration, Admin, "Remove a member")
            .text("Sign-ins and API keys end at once. The last admin stays.")
            .json::<Deleted>(200, "The member is gone.", json!({"deleted": true})),
        call("GET", "/groundwork/v1/members/invitations", "listInvitations", Administration, Admin, "List open invitations")
            .json::<Items<InvitationItem>>(200, "Newest first.", json!({"items": [examples::invitation()]})),
        call("POST", "/groundwork/v1/members/invitations", "createInvitation", Administration, Admin, "Invite somebody")
            .text("The link is in the answer and shown this once: give it to the person; it is good for seven days. An earlier open \
                   invitation of the same address ends.")
            .body::<NewInvitation>(json!({"email": "grace@example.com", "role": "developer"}))
            .json::<SentInvitation>(201, "The invitation and its link.", {
                let mut example = examples::invitation();
                example["path"] = json!("/invite/…");
                example
            }),
        call("DELETE", "/groundwork/v1/members/invitations/{invitation_id}", "withdrawInvitation", Administration, Admin, "Withdraw an invitation")
            .json::<Deleted>(200, "The link is not good any more.", json!({"deleted": true})),
    ]
}

fn keys() -> Vec<Describe> {
    vec![
        call("GET", "/groundwork/v1/api-keys", "listApiKeys", Administration, User, "List API keys")
            .text("Your own, newest first; an admin can list everyone's. Secrets are never shown again.")
            .parameter(query("all", json!({"type": "string", "enum": ["true", "false"]}), "`true`: everyone's (role `admin`)."))
            .json::<Items<ApiKeyItem>>(200, "The keys.", json!({"items": [examples::key()]})),
        call("POST", "/groundwork/v1/api-keys", "createApiKey", Administration, User, "Make an API key")
            .text("For yourself. The secret is in the answer and shown this once. The role is at most that of the key that asks.")
            .body::<NewApiKey>(json!({"name": "ci", "role": "developer", "expires_in_days": 90}))
            .json::<CreatedApiKey>(201, "The key and its secret.", {
                let mut example = examples::key();
                example["secret"] = json!("rma_0123456789abcdefghijklmnopqrstuvwxyzABCDEFG");
                example
            }),
        call("DELETE", "/groundwork/v1/api-keys/{api_key_id}", "revokeApiKey", Administration, User, "Revoke an API key")
            .text("At once. Your own; an admin can revoke anyone's.")
            .json::<Deleted>(200, "The key is not good any more.", json!({"deleted": true})),
    ]
}

/// What entries of the audit log can be chosen by.
fn filters() -> Vec<Parameter> {
    vec![
        query(
            "actor",
            json!({"type": "string"}),
            "The e-mail address of who did it.",
        ),
        query(
            "action",
            json!({"type": "string"}),
            "Such as `environment.update`; `environment.` means all that begin so.",
        ),
        query(
            "subject",
            json!({"type": "string"}),
            "The id that it was about.",
        ),
        query(
            "since",
            json!({"type": "string", "format": "date-time"}),
            "At this time or later.",
        ),
        query(
            "until",
            json!({"type": "string", "format": "date-time"}),
            "Before this time.",
        ),
    ]
}

fn audit() -> Vec<Describe> {
    let mut events = call(
        "GET",
        "/groundwork/v1/audit-events",
        "listAuditEvents",
        Administration,
        Admin,
        "Read the audit log",
    )
    .text(
        "Newest first, page by page: every change with who, when, from where, what and about what.",
    );
    let mut export = call(
        "GET",
        "/groundwork/v1/audit-events/export",
        "exportAuditEvents",
        Administration,
        Admin,
        "Export the audit log",
    )
    .text("Everything that matches in one answer, newest first, sent as it is read.")
    .parameter(query(
        "format",
        json!({"type": "string", "enum": ["ndjson", "csv"]}),
        "`ndjson` unless given: one JSON object a line.",
    ));
    for filter in filters() {
        events = events.parameter(filter.clone());
        export = export.parameter(filter);
    }
    vec![
        call(
            "GET",
            "/groundwork/v1/workers",
            "listWorkers",
            Administration,
            Admin,
            "List workers",
        )
        .text("Newest first, with what they hold and when they were last heard of.")
        .json::<Items<WorkerItem>>(
            200,
            "The workers.",
            json!({"items": [examples::worker()]}),
        ),
        events
            .parameter(query(
                "limit",
                json!({"type": "integer", "minimum": 1, "maximum": 500}),
                "Entries of a page; 50 unless given.",
            ))
            .parameter(query(
                "before",
                json!({"type": "string", "pattern": "^aud_[0-9a-f]{32}$"}),
                "`next_before` of the page before.",
            ))
            .json::<AuditPage>(
                200,
                "The entries; `next_before` is null on the last page.",
                json!({
                    "items": [examples::audit()], "next_before": null,
                }),
            ),
        export.answer(Answer {
            status: 200,
            text: "The entries: `application/x-ndjson`, or `text/csv` with a heading line.",
            kind: Kind::Text(&["application/x-ndjson", "text/csv"]),
            headers: vec![("Content-Disposition", "A file name for the download.")],
            example: Some(json!(format!("{}\n", examples::audit()))),
        }),
    ]
}
