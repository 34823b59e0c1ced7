//! A session's `http_port`, for members alone.
//!
//! A page from a sandbox is somebody else's program. It is served from the console's own host, so three things keep it
//! from acting as the member: it never gets the console's cookie or key (they are taken off, and it cannot set one); a
//! `Content-Security-Policy: sandbox` gives it an origin of its own, so that it can read nothing of the console; and what it
//! sends to the console comes from the origin `null`, which every changing call refuses. Since such a page cannot send
//! cookies to itself either, the right to see it is a token in its address (`control::sessions::HttpDoor`).

use std::{future::Future, sync::Arc, time::Duration};

use axum::{
    Router,
    body::Body,
    extract::{Path, Request, State},
    response::{IntoResponse, Response},
    routing::any,
};
use control::{Secret, sessions::DoorWatch};
use http::{
    HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri, Version, header, uri::PathAndQuery,
};
use hyper_util::rt::TokioIo;
use tokio_util::sync::CancellationToken;
use wire::error::Code;

use super::{
    AppState,
    problem::{Problem, internal},
};
use crate::rest::extract::{Ctx, OfSession};

/// Where tokens open ports.
const TREE: &str = "/s/";
/// How long the server inside may take to begin its answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(120);
/// An origin of its own, without the right to leave it.
const SANDBOX: HeaderValue =
    HeaderValue::from_static("sandbox allow-scripts allow-forms allow-modals allow-downloads");

/// Headers that are between two neighbours alone.
const HOP_BY_HOP: [HeaderName; 9] = [
    header::CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];
/// What a request must not carry into a sandbox: who the member is, and where they came from.
const PRIVATE: [HeaderName; 11] = [
    header::COOKIE,
    header::AUTHORIZATION,
    header::REFERER,
    header::ORIGIN,
    header::FORWARDED,
    header::VIA,
    HeaderName::from_static("x-real-ip"),
    HeaderName::from_static("true-client-ip"),
    HeaderName::from_static("remote-user"),
    HeaderName::from_static("x-remote-user"),
    HeaderName::from_static("x-client-cert"),
];
/// How the names begin of what proxies before us say of the member: addresses, identities, and tokens for them.
const PRIVATE_FAMILIES: [&str; 10] = [
    "x-forwarded-",
    "sec-fetch-",
    "x-auth-request-",
    "x-authentik-",
    "x-pomerium-",
    "x-amzn-",
    "x-goog-",
    "x-ms-",
    "x-ssl-",
    "cf-",
];
/// What an answer must not do to the console's host: set or clear its cookies, ask for a password in its name, promise
/// things in its name.
const NOT_THEIRS: [HeaderName; 6] = [
    header::SET_COOKIE,
    header::STRICT_TRANSPORT_SECURITY,
    header::ALT_SVC,
    header::REFERRER_POLICY,
    header::WWW_AUTHENTICATE,
    header::PUBLIC_KEY_PINS,
];
const NOT_THEIRS_EITHER: [&str; 29] = [
    "set-cookie2",
    "authentication-info",
    "proxy-authentication-info",
    // Sign-ins of the browser in the name of the host: its state, and sessions that are bound to a device.
    "set-login",
    "sec-session-registration",
    "sec-session-challenge",
    "secure-session-registration",
    "secure-session-challenge",
    // What browsers note of a host and tell others.
    "shared-storage-write",
    "observe-browsing-topics",
    "accept-ch-lifetime",
    "public-key-pins-report-only",
    "accept-ch",
    "critical-ch",
    "use-as-dictionary",
    "expect-ct",
    "origin-agent-cluster",
    // Orders to a proxy before us, which would send files or internal places of its own in this answer's stead.
    "x-sendfile",
    "x-lighttpd-send-file",
    "x-litespeed-location",
    "clear-site-data",
    "service-worker-allowed",
    "report-to",
    "reporting-endpoints",
    "nel",
    "access-control-allow-credentials",
    "cross-origin-opener-policy",
    "cross-origin-embedder-policy",
    "cross-origin-resource-policy",
];

/// What needs no sign-in but a token.
pub fn routes() -> Router<AppState> {
    Router::new()
        .route("/s/{token}", any(pass))
        .route("/s/{token}/", any(pass))
        .route("/s/{token}/{*path}", any(pass))
}

/// `GET /sessions/{session_id}/http/…`: a member opens the port.
pub async fn open(
    State(state): State<AppState>,
    Ctx(ctx): Ctx,
    OfSession(id): OfSession,
    uri: Uri,
) -> Result<Response, Problem> {
    let token = state.control.open_http_door(&ctx, id).await?;
    let rest = uri
        .path_and_query()
        .map(PathAndQuery::as_str)
        .and_then(|whole| whole.split_once("/http/"))
        .map_or("", |(_, rest)| rest);
    let place = HeaderValue::from_str(&format!("{TREE}{}/{rest}", token.expose()))
        .map_err(|e| internal(e.to_string()))?;
    Ok((
        StatusCode::SEE_OTHER,
        [
            (header::LOCATION, place),
            (
                header::REFERRER_POLICY,
                HeaderValue::from_static("no-referrer"),
            ),
        ],
    )
        .into_response())
}

/// Everything under a token.
async fn pass(
    State(state): State<AppState>,
    Path(segments): Path<Vec<(String, String)>>,
    request: Request,
) -> Result<Response, Problem> {
    let token = segments
        .into_iter()
        .find(|(name, _)| name == "token")
        .map(|(_, token)| token)
        .unwrap_or_default();
    // Nothing registers a worker that would answer for the console's own pages.
    if request.headers().contains_key("service-worker") {
        return Err(Problem::new(
            Code::Forbidden,
            "Service workers are not possible on a session's port.",
        ));
    }
    let prefix = format!("{TREE}{token}");
    let door = state
        .control
        .pass_http_door(&Secret::new(token.clone()))
        .await?;
    if request.method() == Method::OPTIONS
        && request
            .headers()
            .contains_key(header::ACCESS_CONTROL_REQUEST_METHOD)
    {
        return Ok(preflight());
    }
    // Without the slash, relative addresses would lie beside the token, not below it.
    if request.uri().path() == prefix {
        let place =
            HeaderValue::from_str(&format!("{prefix}/")).map_err(|e| internal(e.to_string()))?;
        return Ok((StatusCode::TEMPORARY_REDIRECT, [(header::LOCATION, place)]).into_response());
    }
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(door.tunnel))
        .await
        .map_err(|e| broken(e.to_string()))?;
    let held = Held {
        watch: Arc::new(door.watch),
        stop: state.stop.clone(),
    };
    let upgrades = held.clone();
    tokio::spawn(async move {
        if let Some(Err(error)) = held.as_long_as_may_be(connection.with_upgrades()).await {
            tracing::debug!(cause = %error, "a connection to a session's port broke off");
        }
    });
    let (onward, upgrade) = onward(request, &prefix, door.port)?;
    let answered = tokio::select! {
        answered = sender.send_request(onward) => answered.map_err(|e| broken(e.to_string()))?,
        () = state.control.clock().sleep(ANSWER_WITHIN) => {
            return Err(Problem::new(
                Code::GatewayTimeout,
                "The server inside the session did not answer in time. Look at it in the session's terminal.",
            ));
        }
    };
    if answered.status() == StatusCode::SWITCHING_PROTOCOLS && upgrade.is_none() {
        return Err(broken(
            "it switched protocols without being asked".to_owned(),
        ));
    }
    Ok(back(answered, upgrade, &prefix, door.port, upgrades))
}

/// What a connection to a port rests upon.
#[derive(Clone)]
struct Held {
    watch: Arc<DoorWatch>,
    stop: CancellationToken,
}

impl Held {
    /// Does it until the door closes or the server stops, whichever is first: what is dropped then breaks off.
    async fn as_long_as_may_be<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            done = work => Some(done),
            () = self.watch.closed() => None,
            () = self.stop.cancelled() => None,
        }
    }
}

fn broken(cause: String) -> Problem {
    Problem::new(
        Code::ServiceUnavailable,
        "The server inside the session broke the connection off, or does not speak HTTP. Look at it in the session's terminal.",
    )
    .because(cause)
}

/// Pages with an origin of their own ask before they send; whoever holds the token may.
fn preflight() -> Response {
    let mut response = StatusCode::NO_CONTENT.into_response();
    let headers = response.headers_mut();
    let any = HeaderValue::from_static("*");
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, any.clone());
    headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, any.clone());
    headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, any);
    confine(headers);
    response
}

/// The request as the server inside gets it, and the browser's half of an upgrade.
fn onward(
    mut request: Request,
    prefix: &str,
    port: u16,
) -> Result<(Request, Option<hyper::upgrade::OnUpgrade>), Problem> {
    let upgrade = request
        .headers()
        .get(header::UPGRADE)
        .is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"websocket"));
    let mine = upgrade.then(|| hyper::upgrade::on(&mut request));
    let path = request
        .uri()
        .path_and_query()
        .map(PathAndQuery::as_str)
        .and_then(|whole| whole.strip_prefix(prefix))
        .filter(|rest| rest.starts_with('/'))
        .unwrap_or("/")
        .to_owned();
    let (mut parts, body) = request.into_parts();
    parts.uri = path
        .parse()
        .map_err(|_| Problem::invalid("path", "The path cannot be passed on. Check it."))?;
    parts.version = Version::HTTP_11;
    let headers = &mut parts.headers;
    strip(headers, &HOP_BY_HOP);
    strip(headers, &PRIVATE);
    let forwarded: Vec<HeaderName> = headers
        .keys()
        .filter(|name| {
            let mut families = PRIVATE_FAMILIES.iter();
            families.any(|family| name.as_str().starts_with(family))
        })
        .cloned()
        .collect();
    strip(headers, &forwarded);
    if let Ok(host) = HeaderValue::from_str(&format!("localhost:{port}")) {
        headers.insert(header::HOST, host);
    }
    if let Ok(value) = HeaderValue::from_str(prefix) {
        headers.insert("x-forwarded-prefix", value);
    }
    if upgrade {
        headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
        headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
        // Servers compare it with the host that they were asked for.
        if let Ok(origin) = HeaderValue::from_str(&format!("http://localhost:{port}")) {
            headers.insert(header::ORIGIN, origin);
        }
    }
    Ok((Request::from_parts(parts, body), mine))
}

fn strip(headers: &mut HeaderMap, names: &[HeaderName]) {
    for name in names {
        headers.remove(name);
    }
}

/// The answer as the browser gets it.
fn back(
    mut answer: http::Response<hyper::body::Incoming>,
    mine: Option<hyper::upgrade::OnUpgrade>,
    prefix: &str,
    port: u16,
    held: Held,
) -> Response {
    let switched = answer.status() == StatusCode::SWITCHING_PROTOCOLS;
    if switched && let Some(mine) = mine {
        let theirs = hyper::upgrade::on(&mut answer);
        tokio::spawn(async move {
            let joined = async {
                let (mine, theirs) = tokio::try_join!(mine, theirs)?;
                let (mut mine, mut theirs) = (TokioIo::new(mine), TokioIo::new(theirs));
                tokio::io::copy_bidirectional(&mut mine, &mut theirs)
                    .await
                    .map(drop)
                    .map_err(Box::<dyn std::error::Error + Send + Sync>::from)
            };
            if let Some(Err(error)) = held.as_long_as_may_be(joined).await {
                tracing::debug!(cause = %error, "a WebSocket of a session's port broke off");
            }
        });
    }
    let (mut parts, body) = answer.into_parts();
    let headers = &mut parts.headers;
    if headers.contains_key(header::TRANSFER_ENCODING) {
        // Chunks count, and a length beside them is a trap for whoever reads it.
        headers.remove(header::CONTENT_LENGTH);
    }
    if !switched {
        strip(headers, &HOP_BY_HOP);
    }
    strip(headers, &NOT_THEIRS);
    for name in NOT_THEIRS_EITHER {
        headers.remove(name);
    }
    let orders: Vec<HeaderName> = headers
        .keys()
        .filter(|name| {
            // That an answer is to be passed on as it comes does no harm.
            let name = name.as_str();
            name.starts_with("x-accel-") && name != "x-accel-buffering"
                || name.starts_with("attribution-reporting-")
                || name.starts_with("ad-auction-")
        })
        .cloned()
        .collect();
    strip(headers, &orders);
    let place = headers
        .get(header::LOCATION)
        .and_then(|value| value.to_str().ok())
        .and_then(|place| below(place, prefix, port))
        .and_then(|place| HeaderValue::from_str(&place).ok());
    if let Some(place) = place {
        headers.insert(header::LOCATION, place);
    }
    headers.insert(
        header::ACCESS_CONTROL_ALLOW_ORIGIN,
        HeaderValue::from_static("*"),
    );
    confine(headers);
    Response::from_parts(parts, Body::new(body))
}

/// Where a redirect of the server inside leads, below the token; `None`: somewhere else, or relative.
fn below(place: &str, prefix: &str, port: u16) -> Option<String> {
    let own = [
        format!("http://localhost:{port}"),
        format!("http://127.0.0.1:{port}"),
    ];
    let path = own
        .iter()
        .find_map(|base| place.strip_prefix(base.as_str()))
        .filter(|rest| rest.is_empty() || rest.starts_with(['/', '?']))
        .or_else(|| (place.starts_with('/') && !place.starts_with("//")).then_some(place))?;
    let slash = if path.starts_with('/') { "" } else { "/" };
    Some(format!("{prefix}{slash}{path}"))
}

/// What every answer under a token says to the browser.
fn confine(headers: &mut HeaderMap) {
    // Beside any policy of the page's own: browsers keep to all of them.
    headers.append(header::CONTENT_SECURITY_POLICY, SANDBOX);
    headers.insert(
        header::REFERRER_POLICY,
        HeaderValue::from_static("no-referrer"),
    );
    // A page with an origin of its own is a stranger to its own files.
    headers.insert(
        "cross-origin-resource-policy",
        HeaderValue::from_static("cross-origin"),
    );
    headers.insert(
        "cross-origin-opener-policy",
        HeaderValue::from_static("unsafe-none"),
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redirects_of_the_server_inside_stay_below_the_token() {
        for (place, expected) in [
            ("/login?next=/", Some("/s/T/login?next=/")),
            ("http://localhost:8080/a", Some("/s/T/a")),
            ("http://127.0.0.1:8080", Some("/s/T/")),
            ("http://localhost:8080?x", Some("/s/T/?x")),
            ("http://localhost:80801/a", None),
            ("http://localhost:9090/a", None),
            ("//elsewhere.example/a", None),
            ("https://elsewhere.example/a", None),
            ("next", None),
        ] {
            assert_eq!(below(place, "/s/T", 8080).as_deref(), expected, "{place}");
        }
    }
}
