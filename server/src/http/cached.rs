//! Validators: whether a caller has the current answer already.

use http::{HeaderMap, HeaderValue, header};

/// Whether `If-None-Match` names this tag (weakly compared).
pub fn knows(headers: &HeaderMap, tag: &HeaderValue) -> bool {
    let Ok(tag) = tag.to_str() else {
        return false;
    };
    headers
        .get_all(header::IF_NONE_MATCH)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .any(|given| {
            let given = given.trim();
            given == "*" || given.trim_start_matches("W/") == tag.trim_start_matches("W/")
        })
}
