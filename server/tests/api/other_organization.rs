//! A member of another organization, even its admin: every page, server function and REST operation about something of
//! ours answers as if it had never existed, and none that lists holds anything of ours.

use control::ports::rows::OrganizationRow;
use domain::{ids::OrganizationId, roles::Role, timestamp::Timestamp};

use crate::{
    coverage::{at_rest, filled, rest_rows, session_of, split, tested_environment},
    coverage_functions,
    pages::{PAGES, cookie_of, page},
    support::{ADMIN, Answer, DEVELOPER, Doors, USER, key},
};

const STRANGER: &str = "stranger@example.org";

/// Ours: an environment with a run and a session; and the stranger's sign-in and key.
struct World {
    doors: Doors,
    environment: String,
    run: String,
    session: String,
    /// What nobody else may be told.
    ours: Vec<String>,
    cookie: String,
    key: String,
}

impl World {
    async fn make() -> Self {
        let doors = Doors::open().await;
        let (environment, run) = tested_environment(&doors).await;
        let session = session_of(&doors, environment).await;
        let stranger = doors.app.member(Role::Admin, STRANGER).await;
        let cookie = cookie_of(&doors, STRANGER).await;
        let key = key(&doors.app, STRANGER, Role::Admin).await;
        doors.app.store.put_elsewhere(
            stranger.member().unwrap().user_id,
            OrganizationRow {
                organization_id: OrganizationId::from_uuid(uuid::Uuid::from_u128(0xdead)),
                name: "Elsewhere".to_owned(),
                created_at: Timestamp::from_micros(0),
            },
        );
        let environment = environment.to_string();
        let ours = [
            "Covered",
            "Test organization",
            ADMIN,
            DEVELOPER,
            USER,
            &environment,
            &run,
            &session,
        ];
        Self {
            ours: ours.map(str::to_owned).to_vec(),
            doors,
            environment,
            run,
            session,
            cookie,
            key,
        }
    }

    fn filled(&self, text: &str) -> String {
        filled(text, &self.environment, &self.run, &self.session)
            .replace("{environment}", &self.environment)
            .replace("{run}", &self.run)
    }

    /// What is wrong with an answer: its status where the call is about something of ours, and texts that it holds.
    fn wrong(&self, what: &str, asked: &str, answer: &Answer) -> Option<String> {
        let about_ours = [&self.environment, &self.run, &self.session]
            .into_iter()
            .any(|id| asked.contains(id.as_str()));
        let status = answer.status.as_u16();
        if about_ours && status != 404 {
            return Some(format!("{what}: {status} instead of 404"));
        }
        // What was asked comes back in addresses of forms and pages; that is no news.
        let told: Vec<&String> = self
            .ours
            .iter()
            .filter(|text| !asked.contains(text.as_str()) && answer.text.contains(text.as_str()))
            .collect();
        (!told.is_empty()).then(|| format!("{what}: tells {told:?}"))
    }
}

#[tokio::test]
async fn no_page_shows_another_organization_anything_of_ours() {
    let world = World::make().await;
    let mut wrong = Vec::new();
    let mut listed = 0;
    for (path, _) in PAGES {
        let path = world.filled(path);
        let answer = page(&world.doors, &path, Some(&world.cookie)).await;
        listed += usize::from(answer.status == 200);
        wrong.extend(world.wrong(&path, &path, &answer));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(listed > 8, "the stranger is signed in: {listed} pages");
}

#[tokio::test]
async fn no_server_function_tells_or_changes_anything_of_ours_for_another_organization() {
    let world = World::make().await;
    let mut wrong = Vec::new();
    let mut answered = 0;
    for function in coverage_functions::all() {
        // They end the sign-in with which the others are called.
        if ["/fn/sign-out", "/fn/sign-out-everywhere", "/fn/sign-in"].contains(&function.path) {
            continue;
        }
        let fields: Vec<(&str, String)> = function
            .form
            .iter()
            .map(|(name, value)| (*name, world.filled(value)))
            .collect();
        let fields: Vec<(&str, &str)> = fields.iter().map(|(n, v)| (*n, v.as_str())).collect();
        let asked = format!("{fields:?}");
        let call = world
            .doors
            .post(function.path)
            .form(&fields)
            .header("cookie", &world.cookie);
        if function.path == "/fn/follow-environments" {
            // Never ends; what it follows is told by the list.
            assert_eq!(call.open().await.status(), 200);
            continue;
        }
        let answer = call.send().await;
        answered += usize::from(answer.status == 200);
        if function.path == "/fn/sessions-of" {
            // A count, and of nothing as for an id that never existed.
            assert_eq!((answer.status.as_u16(), answer.text.as_str()), (200, "0"));
            continue;
        }
        wrong.extend(world.wrong(function.path, &asked, &answer));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(answered > 8, "the stranger is signed in: {answered} calls");
    still_ours(&world).await;
}

#[tokio::test]
async fn no_rest_operation_tells_or_changes_anything_of_ours_for_another_organization() {
    let world = World::make().await;
    let mut wrong = Vec::new();
    let mut answered = 0;
    for row in rest_rows() {
        let (method, path) = split(row.call);
        let (path, body) = (world.filled(path), world.filled(row.body));
        let mut call = world.doors.call(method, &path).bearer(&world.key);
        if !body.is_empty() {
            call = call.raw("application/json", body.clone());
        }
        if row.call.ends_with("/setup-runs") && row.call.starts_with("POST") {
            call = call.header("idempotency-key", "k");
        }
        if row.call.ends_with("/terminal") {
            // No upgrade is asked for, which is refused before anything is looked up.
            continue;
        }
        let answer = call.send().await;
        answered += usize::from(answer.status == 200);
        wrong.extend(world.wrong(row.call, &format!("{path} {body}"), &answer));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(answered > 8, "the stranger's key counts: {answered} calls");
    still_ours(&world).await;
}

/// Nothing was changed or removed by the walk.
async fn still_ours(world: &World) {
    at_rest(&world.doors, &world.session).await;
    let app = &world.doors.app;
    let environment = app
        .control
        .get_environment(&app.admin, world.environment.parse().unwrap())
        .await
        .unwrap();
    assert_eq!(environment.name, "Covered");
    assert_eq!(environment.description, "");
    assert!(
        app.control
            .list_secrets(&app.admin, environment.environment_id)
            .await
            .unwrap()
            .secrets
            .is_empty()
    );
    let session = app
        .control
        .get_session(&app.admin, world.session.parse().unwrap(), None)
        .await
        .unwrap();
    assert_eq!(session.status, domain::session::Status::Running);
}
