//! The document and the root component.

use leptos::prelude::*;
use leptos_meta::{Title, provide_meta_context};

/// The document around every page.
#[cfg(feature = "ssr")]
pub fn shell(options: LeptosOptions) -> impl IntoView {
    use leptos_meta::{HashedStylesheet, MetaTags};
    let parts = use_context::<http::request::Parts>();
    let theme = parts
        .as_ref()
        .and_then(|parts| parts.headers.get(http::header::COOKIE)?.to_str().ok())
        .map_or_else(Default::default, crate::theme::Theme::from_cookies);
    set_content_security_policy();
    view! {
        <!DOCTYPE html>
        <html lang="en" data-theme=theme.attribute()>
            <head>
                <meta charset="utf-8" />
                <meta name="viewport" content="width=device-width, initial-scale=1" />
                <meta name="color-scheme" content="light dark" />
                <link rel="icon" href="/favicon.svg" type="image/svg+xml" />
                <HashedStylesheet options=options.clone() id="style" />
                <HydrationScripts options />
                <MetaTags />
            </head>
            <body>
                <App />
            </body>
        </html>
    }
}

/// The page's policy: only our own files, scripts by this answer's nonce, wasm, nothing inline.
#[cfg(feature = "ssr")]
fn set_content_security_policy() {
    use http::{HeaderValue, header};
    use leptos::nonce::use_nonce;
    let (Some(nonce), Some(options)) = (use_nonce(), use_context::<leptos_axum::ResponseOptions>())
    else {
        return;
    };
    let policy = format!(
        "default-src 'none'; script-src 'self' 'nonce-{nonce}' 'wasm-unsafe-eval'; style-src 'self' 'nonce-{nonce}'; \
         img-src 'self' data:; font-src 'self'; connect-src 'self'; manifest-src 'self'; form-action 'self'; \
         base-uri 'none'; frame-ancestors 'none'"
    );
    if let Ok(value) = HeaderValue::from_str(&policy) {
        options.insert_header(header::CONTENT_SECURITY_POLICY, value);
    }
}

/// The root component.
#[component]
pub fn App() -> impl IntoView {
    provide_meta_context();
    view! { <Title text="Groundwork" /> }
}
