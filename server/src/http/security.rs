//! Headers that tell browsers what not to do (spec 3-console: strict policy, no `unsafe-inline`).

use http::{HeaderMap, HeaderValue, header};

/// The policy of a page whose inline scripts and styles carry `nonce`.
pub fn page_policy(nonce: &str) -> String {
    format!(
        "default-src 'none'; script-src 'self' 'nonce-{nonce}' 'wasm-unsafe-eval'; style-src 'self' 'nonce-{nonce}'; \
         img-src 'self' data:; font-src 'self'; connect-src 'self'; manifest-src 'self'; form-action 'self'; \
         base-uri 'none'; frame-ancestors 'none'; object-src 'none'"
    )
}

/// The policy of everything that is not a page.
const NO_PAGE: &str =
    "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'";

/// Sets them where an answer says nothing of its own.
pub fn set(headers: &mut HeaderMap, tls: bool) {
    // Room for these and the request's id at once.
    headers.reserve(10);
    let mut default = |name, value: &'static str| {
        headers
            .entry(name)
            .or_insert(HeaderValue::from_static(value));
    };
    default(header::CONTENT_SECURITY_POLICY, NO_PAGE);
    default(header::X_CONTENT_TYPE_OPTIONS, "nosniff");
    default(header::X_FRAME_OPTIONS, "DENY");
    // Links may hold one-time tokens, and where people go is nobody's business.
    default(header::REFERRER_POLICY, "same-origin");
    default(
        header::HeaderName::from_static("cross-origin-opener-policy"),
        "same-origin",
    );
    default(
        header::HeaderName::from_static("cross-origin-resource-policy"),
        "same-origin",
    );
    default(
        header::HeaderName::from_static("permissions-policy"),
        "camera=(), microphone=(), geolocation=(), payment=()",
    );
    default(header::CACHE_CONTROL, "no-store");
    if tls {
        default(
            header::STRICT_TRANSPORT_SECURITY,
            "max-age=31536000; includeSubDomains",
        );
        // Cookies set behind TLS never travel without it.
        let cookies: Vec<HeaderValue> = headers
            .get_all(header::SET_COOKIE)
            .iter()
            .cloned()
            .collect();
        if !cookies.is_empty() {
            headers.remove(header::SET_COOKIE);
            for cookie in cookies {
                let secure = cookie
                    .to_str()
                    .ok()
                    .filter(|text| {
                        !text
                            .split(';')
                            .any(|part| part.trim().eq_ignore_ascii_case("secure"))
                    })
                    .and_then(|text| HeaderValue::from_str(&format!("{text}; Secure")).ok());
                headers.append(header::SET_COOKIE, secure.unwrap_or(cookie));
            }
        }
    }
}
