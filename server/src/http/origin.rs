//! Where a request comes from: the peer behind trusted proxies, whether it came by TLS, and whether a browser sent it
//! from another site.

use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

use axum::{
    extract::{ConnectInfo, Request, State},
    middleware::Next,
    response::{IntoResponse, Response},
};
use http::{HeaderMap, Method, header};
use ipnet::IpNet;
use wire::error::Code;

use super::{AppState, problem::Problem};
use crate::config::PublicUrl;

/// What decides it.
#[derive(Debug, Clone, Default)]
pub struct Origins {
    /// How the outside reaches the server.
    pub public_url: Option<PublicUrl>,
    /// Peers whose `X-Forwarded-…` headers count.
    pub trusted_proxies: Arc<[IpNet]>,
}

/// Where a request comes from; in the request's extensions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// The caller's address.
    pub address: Option<IpAddr>,
    /// Whether it came by TLS, to us or to a trusted proxy.
    pub tls: bool,
    /// Host and port as the caller wrote them.
    pub host: Option<String>,
}

impl Source {
    /// The address as text, for the audit log.
    pub fn text(&self) -> Option<String> {
        self.address.map(|address| address.to_string())
    }
}

/// The layer that refuses what a browser sends from another site. For everything that a cookie authorizes.
pub async fn refuse_cross_site(
    State(state): State<AppState>,
    request: Request,
    next: Next,
) -> Response {
    if state.origins.allows(&request) {
        next.run(request).await
    } else {
        Problem::new(
            Code::Forbidden,
            "This request came from another site and was refused. Open the console itself and try again.",
        )
        .into_response()
    }
}

/// The layer for WebSockets that a cookie authorizes: browsers let every site open one, with the cookie, so that nothing
/// but the page's own word that it is ours will do.
pub async fn require_own_page(
    State(state): State<AppState>,
    request: Request,
    next: Next,
) -> Response {
    let own = request
        .headers()
        .get(header::ORIGIN)
        .and_then(|origin| origin.to_str().ok())
        .is_some_and(|origin| state.origins.is_own(origin, &request));
    if own {
        next.run(request).await
    } else {
        Problem::new(
            Code::Forbidden,
            "This connection did not come from a page of the console. Use the API with a key instead.",
        )
        .into_response()
    }
}

impl Origins {
    /// Where a request comes from.
    pub fn of(&self, request: &Request) -> Source {
        let peer = request
            .extensions()
            .get::<ConnectInfo<SocketAddr>>()
            .map(|ConnectInfo(peer)| peer.ip().to_canonical());
        self.source(peer, request.headers())
    }

    fn source(&self, peer: Option<IpAddr>, headers: &HeaderMap) -> Source {
        let trusted = |address: IpAddr| {
            self.trusted_proxies
                .iter()
                .any(|net| net.contains(&address))
        };
        let behind_proxy = peer.is_some_and(trusted);
        let mut address = peer;
        let mut tls = self
            .public_url
            .as_ref()
            .is_some_and(|url| url.scheme == "https");
        let mut host = headers
            .get(header::HOST)
            .and_then(|value| value.to_str().ok())
            .map(str::to_ascii_lowercase);
        if behind_proxy {
            // The last address that no trusted proxy wrote about itself is the caller's; those before it are hearsay.
            let chain: Vec<IpAddr> = headers
                .get_all("x-forwarded-for")
                .iter()
                .filter_map(|value| value.to_str().ok())
                .flat_map(|value| value.split(','))
                .filter_map(|text| text.trim().parse::<IpAddr>().ok())
                .map(|ip| ip.to_canonical())
                .collect();
            if let Some(caller) = chain
                .iter()
                .rev()
                .find(|ip| !trusted(**ip))
                .or(chain.first())
            {
                address = Some(*caller);
            }
            if let Some(proto) = text(headers, "x-forwarded-proto") {
                tls = proto.eq_ignore_ascii_case("https");
            }
            if let Some(forwarded) = text(headers, "x-forwarded-host") {
                host = Some(forwarded.to_ascii_lowercase());
            }
        }
        Source { address, tls, host }
    }

    /// Safe methods; else what a browser says is from this very site; else callers without a cookie, which no browser
    /// was tricked into.
    fn allows(&self, request: &Request) -> bool {
        if matches!(
            *request.method(),
            Method::GET | Method::HEAD | Method::OPTIONS
        ) {
            return true;
        }
        let headers = request.headers();
        if let Some(origin) = headers.get(header::ORIGIN) {
            return origin
                .to_str()
                .is_ok_and(|origin| self.is_own(origin, request));
        }
        if let Some(site) = text(headers, "sec-fetch-site") {
            return site == "same-origin";
        }
        !headers.contains_key(header::COOKIE)
    }

    fn is_own(&self, origin: &str, request: &Request) -> bool {
        let Some((scheme, authority)) = origin.split_once("://") else {
            return false;
        };
        if let Some(url) = &self.public_url
            && url.scheme == scheme
            && url.authority.eq_ignore_ascii_case(authority)
        {
            return true;
        }
        let host = request
            .extensions()
            .get::<Source>()
            .and_then(|source| source.host.as_deref());
        matches!(scheme, "http" | "https")
            && host.is_some_and(|host| host.eq_ignore_ascii_case(authority))
    }
}

fn text<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

#[cfg(test)]
mod tests {
    use axum::body::Body;

    use super::*;

    fn origins() -> Origins {
        Origins {
            public_url: None,
            trusted_proxies: Arc::from(["10.0.0.0/8".parse::<IpNet>().unwrap()]),
        }
    }

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        pairs
            .iter()
            .map(|(name, value)| {
                (
                    name.parse::<http::HeaderName>().unwrap(),
                    value.parse().unwrap(),
                )
            })
            .collect()
    }

    #[test]
    fn forwarded_headers_count_from_trusted_proxies_alone() {
        let forwarded = headers(&[
            ("host", "inner:3000"),
            ("x-forwarded-for", "203.0.113.9, 198.51.100.7, 10.1.1.1"),
            ("x-forwarded-proto", "https"),
            ("x-forwarded-host", "Outer.example"),
        ]);
        let ip = |text: &str| Some(text.parse::<IpAddr>().unwrap());
        let source = origins().source(ip("10.9.9.9"), &forwarded);
        assert_eq!(source.address, ip("198.51.100.7"));
        assert!(source.tls);
        assert_eq!(source.host.as_deref(), Some("outer.example"));
        let source = origins().source(ip("192.0.2.1"), &forwarded);
        assert_eq!(source.address, ip("192.0.2.1"));
        assert!(!source.tls);
        assert_eq!(source.host.as_deref(), Some("inner:3000"));
    }

    #[test]
    fn unsafe_requests_must_come_from_this_site() {
        let check = |method: &str, pairs: &[(&'static str, &'static str)], expected: bool| {
            let mut request = Request::builder()
                .method(method)
                .uri("/api/x")
                .body(Body::empty())
                .unwrap();
            *request.headers_mut() = headers(pairs);
            request
                .headers_mut()
                .insert(header::HOST, "gw.example:3000".parse().unwrap());
            let origins = origins();
            let source = origins.source(None, request.headers());
            request.extensions_mut().insert(source);
            assert_eq!(origins.allows(&request), expected, "{method} {pairs:?}");
        };
        let cookie = ("cookie", "groundwork_session=x");
        check("GET", &[("origin", "https://evil.example"), cookie], true);
        check(
            "POST",
            &[("origin", "http://gw.example:3000"), cookie],
            true,
        );
        check(
            "POST",
            &[("origin", "https://gw.example:3000"), cookie],
            true,
        );
        check("POST", &[("origin", "https://evil.example"), cookie], false);
        check("POST", &[("origin", "https://evil.example")], false);
        check("POST", &[("origin", "http://gw.example"), cookie], false);
        check("POST", &[("origin", "null"), cookie], false);
        check("POST", &[("sec-fetch-site", "same-origin"), cookie], true);
        check("POST", &[("sec-fetch-site", "same-site"), cookie], false);
        check("POST", &[("sec-fetch-site", "cross-site")], false);
        check("POST", &[("sec-fetch-site", "none"), cookie], false);
        check("POST", &[cookie], false);
        check("POST", &[], true);
        check(
            "DELETE",
            &[("origin", "https://evil.example"), cookie],
            false,
        );
    }
}
