//! Host names beyond ASCII in the browser. The rules' own tables for them stay on the server (they would be a tenth of the
//! first download): the browser translates such names itself before a rule reads them.

use std::borrow::Cow;

/// The host or glob with each part beyond ASCII in its `xn--` form; a part that no host can have stays, and is refused by
/// the rule that reads it.
pub fn in_ascii(host: &str) -> Cow<'_, str> {
    if host.is_ascii() {
        return Cow::Borrowed(host);
    }
    let parts: Vec<String> = host
        .split('.')
        .map(|part| {
            if part.is_ascii() || part.contains('*') {
                part.to_owned()
            } else {
                translated(part).unwrap_or_else(|| part.to_owned())
            }
        })
        .collect();
    Cow::Owned(parts.join("."))
}

#[cfg(target_arch = "wasm32")]
fn translated(part: &str) -> Option<String> {
    // A browser reads more than a host from such a text: what could end the host, or be an address, is left to the rule.
    if part.contains(['/', '\\', '?', '#', '@', ':', '[', ']', '%']) {
        return None;
    }
    let url = web_sys::Url::new(&format!("http://{part}.x/")).ok()?;
    url.hostname().strip_suffix(".x").map(ToOwned::to_owned)
}

/// Elsewhere the rule has its tables.
#[cfg(not(target_arch = "wasm32"))]
const fn translated(_part: &str) -> Option<String> {
    None
}
