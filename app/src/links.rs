//! Paths of the console, in one place.

use domain::ids::{EnvironmentId, SessionId, SetupRunId};

/// The table.
pub const ENVIRONMENTS: &str = "/environments";
/// The create page.
pub const NEW_ENVIRONMENT: &str = "/environments/new";
/// Sessions.
pub const SESSIONS: &str = "/sessions";
/// The description of the API, for people.
pub const API: &str = "/api";
/// The sign-in page.
pub const SIGN_IN: &str = "/sign-in";

/// One environment.
pub fn environment(id: EnvironmentId) -> String {
    format!("/environments/{id}")
}

/// What was saved of an environment before.
pub fn history(id: EnvironmentId) -> String {
    format!("/environments/{id}/history")
}

/// What going back to a saved definition would change.
pub fn compare(id: EnvironmentId, revision: i64) -> String {
    format!("/environments/{id}/history?compare={revision}")
}

/// The page that asks before an environment is deleted.
pub fn delete_environment(id: EnvironmentId) -> String {
    format!("/environments/{id}/delete")
}

/// The create page, filled from an environment.
pub fn duplicate_environment(id: EnvironmentId) -> String {
    format!("/environments/new?from={id}")
}

/// The create page, filled from a template.
pub fn from_template(id: &str) -> String {
    format!("/environments/new?template={}", encode(id))
}

/// One run's own page.
pub fn run(environment: EnvironmentId, run: SetupRunId) -> String {
    format!("/environments/{environment}/runs/{run}")
}

/// A line in an environment's script editor.
pub fn script_line(environment: EnvironmentId, line: u32) -> String {
    format!("/environments/{environment}#script-L{line}")
}

/// One session.
pub fn session(id: SessionId) -> String {
    format!("{SESSIONS}/{id}")
}

/// The page that asks before a session is deleted.
pub fn delete_session(id: SessionId) -> String {
    format!("{SESSIONS}/{id}/delete")
}

/// What a session shows on its port.
pub fn session_port(id: SessionId) -> String {
    format!("{SESSIONS}/{id}/http/")
}

/// A session's terminal, for the browser's socket.
pub fn session_terminal(id: SessionId) -> String {
    format!("{SESSIONS}/{id}/terminal")
}

/// The sign-in page that leads to `next` afterwards.
pub fn sign_in(next: Option<&str>) -> String {
    match next.and_then(local) {
        Some(next) if next != "/" && next != SIGN_IN => {
            format!("{SIGN_IN}?next={}", encode(next))
        }
        _ => SIGN_IN.to_owned(),
    }
}

/// The text if it is a path of this very site. Anything that a browser could read as another host is refused:
/// `//host`, `/\host`, a scheme, control characters.
pub fn local(path: &str) -> Option<&str> {
    let rest = path.strip_prefix('/')?;
    let sound = !rest.starts_with(['/', '\\'])
        && !path.contains('\\')
        && path.bytes().all(|byte| byte.is_ascii_graphic());
    sound.then_some(path)
}

/// Percent-encodes a query value.
pub fn encode(text: &str) -> String {
    use std::fmt::Write as _;
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte) {
            out.push(char::from(byte));
        } else {
            // Writing to a String cannot fail.
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_paths_of_this_site_are_local() {
        for (path, ok) in [
            ("/environments?query=a", true),
            ("/", true),
            ("//evil.example", false),
            ("/\\evil.example", false),
            ("/a\\b", false),
            ("https://evil.example", false),
            ("javascript:alert(1)", false),
            ("environments", false),
            ("/a\nb", false),
            ("/a b", false),
            ("", false),
        ] {
            assert_eq!(local(path).is_some(), ok, "{path:?}");
        }
    }

    #[test]
    fn a_wanted_page_survives_signing_in() {
        for (next, link) in [
            (
                Some("/environments?query=a&x=1"),
                "/sign-in?next=/environments%3Fquery%3Da%26x%3D1",
            ),
            (Some("//evil.example"), "/sign-in"),
            (Some("/"), "/sign-in"),
            (None, "/sign-in"),
        ] {
            assert_eq!(sign_in(next), link);
        }
    }
}
