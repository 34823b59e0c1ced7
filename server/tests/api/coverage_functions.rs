//! Every server function with what each kind of caller gets. A plain endpoint, whatever page it stands beside.

/// A server function and the statuses that nobody, a user, a developer and an admin get.
pub struct Function {
    pub path: &'static str,
    /// Form fields; `{environment_id}`, `{setup_run_id}` and `{session_id}` are filled in.
    pub form: &'static [(&'static str, &'static str)],
    pub expected: [u16; 4],
}

const fn function(
    path: &'static str,
    form: &'static [(&'static str, &'static str)],
    expected: [u16; 4],
) -> Function {
    Function {
        path,
        form,
        expected,
    }
}

const ANYONE: [u16; 4] = [200, 200, 200, 200];
const MEMBERS: [u16; 4] = [401, 200, 200, 200];
const DEVELOPERS: [u16; 4] = [401, 403, 200, 200];
const ADMINS: [u16; 4] = [401, 403, 403, 200];
/// An admin's call about something that is not there.
const ADMINS_NONE: [u16; 4] = [401, 403, 403, 404];

const ENVIRONMENT: (&str, &str) = ("environment_id", "{environment_id}");
const SESSION: (&str, &str) = ("session_id", "{session_id}");
const RUN: (&str, &str) = ("setup_run_id", "{setup_run_id}");
const TOKEN: (&str, &str) = ("token", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa");
const NOBODY: (&str, &str) = ("user_id", "usr_019a0000000070008000000000000001");
const NEW_PASSWORD: (&str, &str) = ("password", "another horse battery");

/// All of them; one that removes what others need stands last.
pub fn all() -> Vec<Function> {
    vec![
        function("/fn/needs-setup", &[], ANYONE),
        function("/fn/theme", &[("theme", "dark")], ANYONE),
        function(
            "/fn/sign-in",
            &[
                ("email", "admin@example.com"),
                ("password", "correct horse battery"),
            ],
            ANYONE,
        ),
        function("/fn/sign-out", &[], ANYONE),
        // The first admin is there: the link is worth nothing, whoever has it.
        function(
            "/fn/set-up",
            &[
                TOKEN,
                ("organization", "O"),
                ("display_name", ""),
                ("email", "x@example.com"),
                NEW_PASSWORD,
            ],
            [403; 4],
        ),
        function("/fn/invitation", &[TOKEN], [404; 4]),
        function(
            "/fn/accept-invitation",
            &[TOKEN, ("display_name", ""), NEW_PASSWORD],
            [404; 4],
        ),
        function("/fn/frame", &[], MEMBERS),
        function("/fn/change-display-name", &[("name", "N")], MEMBERS),
        // With a wrong present password, which no sign-in makes up for.
        function(
            "/fn/change-password",
            &[
                ("current", "wrong horse battery"),
                ("new", "another horse battery"),
            ],
            [401, 400, 400, 400],
        ),
        function("/fn/sign-out-everywhere", &[], MEMBERS),
        function("/fn/keys", &[("everyones", "false")], MEMBERS),
        function(
            "/fn/create-key",
            &[("name", "k"), ("role", "user")],
            MEMBERS,
        ),
        function(
            "/fn/revoke-key",
            &[("api_key_id", "key_019a0000000070008000000000000001")],
            [401, 404, 404, 404],
        ),
        function("/fn/members", &[], ADMINS),
        function(
            "/fn/invite",
            &[("email", "new@example.com"), ("role", "user")],
            ADMINS,
        ),
        function(
            "/fn/withdraw-invitation",
            &[("invitation_id", "inv_019a0000000070008000000000000001")],
            ADMINS_NONE,
        ),
        function("/fn/change-role", &[NOBODY, ("role", "user")], ADMINS_NONE),
        function("/fn/remove-member", &[NOBODY], ADMINS_NONE),
        function("/fn/workers", &[], ADMINS),
        function("/fn/release-run", &[ENVIRONMENT, RUN], [401, 403, 403, 409]),
        function("/fn/audit", &[], ADMINS),
        function(
            "/fn/environments",
            &[
                ("query", ""),
                ("sort[by]", "updated"),
                ("sort[ascending]", "false"),
            ],
            MEMBERS,
        ),
        function("/fn/follow-environments", &[], MEMBERS),
        function("/fn/new-environment", &[], DEVELOPERS),
        function("/fn/environment", &[("id", "{environment_id}")], MEMBERS),
        function(
            "/fn/create-environment",
            &[("draft[name]", "New"), ("key", "create-{caller}")],
            DEVELOPERS,
        ),
        function("/fn/run", &[ENVIRONMENT, RUN], MEMBERS),
        function(
            "/fn/follow-run",
            &[ENVIRONMENT, RUN, ("after", "0")],
            MEMBERS,
        ),
        function("/fn/secrets", &[ENVIRONMENT], MEMBERS),
        function(
            "/fn/set-secret",
            &[ENVIRONMENT, ("name", "TOKEN"), ("value", "hush-hush")],
            DEVELOPERS,
        ),
        function(
            "/fn/set-variables",
            &[ENVIRONMENT, ("dotenv", "TOKEN=hush-hush")],
            DEVELOPERS,
        ),
        function(
            "/fn/delete-secret",
            &[ENVIRONMENT, ("name", "TOKEN")],
            [401, 403, 200, 404],
        ),
        function("/fn/run-hosts", &[ENVIRONMENT, RUN], MEMBERS),
        function("/fn/run-timings", &[ENVIRONMENT, RUN], MEMBERS),
        function(
            "/fn/allow-host",
            &[ENVIRONMENT, ("host", "a.example"), ("then_test", "false")],
            DEVELOPERS,
        ),
        function(
            "/fn/log-lines",
            &[ENVIRONMENT, RUN, ("after", "0"), ("limit", "10")],
            MEMBERS,
        ),
        function("/fn/log-outline", &[ENVIRONMENT, RUN], MEMBERS),
        function(
            "/fn/find-in-log",
            &[ENVIRONMENT, RUN, ("query", "x")],
            MEMBERS,
        ),
        // The run has passed: there is nothing to raise.
        function(
            "/fn/raise-limit",
            &[ENVIRONMENT, RUN, ("key", "raise-{caller}")],
            [401, 403, 400, 400],
        ),
        function("/fn/cancel-run", &[ENVIRONMENT, RUN], [401, 403, 409, 409]),
        function(
            "/fn/test-setup",
            &[ENVIRONMENT, ("key", "test-{caller}")],
            [401, 403, 200, 409],
        ),
        function(
            "/fn/check-environment",
            &[ENVIRONMENT, ("draft[name]", "Covered")],
            DEVELOPERS,
        ),
        function(
            "/fn/save-environment",
            &[
                ENVIRONMENT,
                ("base_revision", "1"),
                ("draft[name]", "Covered"),
                ("key", "save-{caller}"),
            ],
            DEVELOPERS,
        ),
        function("/fn/history", &[("id", "{environment_id}")], MEMBERS),
        function(
            "/fn/merge-environment",
            &[
                ENVIRONMENT,
                ("base_revision", "1"),
                ("draft[name]", "Covered"),
            ],
            DEVELOPERS,
        ),
        // A host was allowed (revision 2) and the developer saved (3); going back to that changes nothing.
        function(
            "/fn/restore-revision",
            &[ENVIRONMENT, ("revision", "3"), ("seen", "3")],
            DEVELOPERS,
        ),
        function(
            "/fn/put-back",
            &[ENVIRONMENT, ("seen", "1")],
            [401, 403, 409, 409],
        ),
        function("/fn/sessions", &[], MEMBERS),
        function("/fn/session", &[SESSION], MEMBERS),
        function("/fn/sessions-of", &[ENVIRONMENT], MEMBERS),
        function(
            "/fn/start-session",
            &[ENVIRONMENT, ("key", "session-{caller}")],
            DEVELOPERS,
        ),
        function("/fn/stop-session", &[SESSION], DEVELOPERS),
        function("/fn/resume-session", &[SESSION], DEVELOPERS),
        // Gone for the second who asks.
        function("/fn/delete-session", &[SESSION], [401, 403, 200, 404]),
        function(
            "/fn/delete-environment",
            &[ENVIRONMENT],
            [401, 403, 200, 404],
        ),
    ]
}
