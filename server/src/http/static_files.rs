//! The console's files: hashed ones are kept by browsers for a year, and served as they were compressed at build time.

use std::path::Path;

use axum::{
    Router,
    extract::Request,
    middleware::{self, Next},
    response::Response,
};
use http::{HeaderValue, StatusCode, header};
use tower_http::services::ServeDir;

/// Routes for `/pkg` (built files) and the icons and fonts at the root.
pub fn routes<S: Clone + Send + Sync + 'static>(site: &Path, assets: &[String]) -> Router<S> {
    let mut router = Router::new().nest_service(
        "/pkg",
        ServeDir::new(site.join("pkg"))
            .precompressed_br()
            .precompressed_gzip()
            .append_index_html_on_directories(false),
    );
    for name in assets {
        let path = site.join(name);
        router = if path.is_dir() {
            router.nest_service(
                &format!("/{name}"),
                ServeDir::new(path).append_index_html_on_directories(false),
            )
        } else {
            router.route_service(
                &format!("/{name}"),
                tower_http::services::ServeFile::new(path),
            )
        };
    }
    router.layer(middleware::from_fn(cache))
}

/// What lies at the site's root beside `pkg`: the contents of `public/`.
pub fn assets(site: &Path) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(site)
        .into_iter()
        .flatten()
        .filter_map(Result::ok)
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| {
            name != "pkg"
                && !name.starts_with('.')
                && name
                    .bytes()
                    .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
        })
        .collect();
    names.sort();
    names
}

async fn cache(request: Request, next: Next) -> Response {
    // `nest_service` has taken the prefix off: the whole path is in the original URI.
    let hashed = request
        .extensions()
        .get::<axum::extract::OriginalUri>()
        .map_or_else(|| request.uri().path(), |uri| uri.0.path())
        .rsplit('/')
        .next()
        .is_some_and(is_hashed);
    let mut response = next.run(request).await;
    let value = match response.status() {
        StatusCode::OK | StatusCode::NOT_MODIFIED if hashed => {
            "public, max-age=31536000, immutable"
        }
        StatusCode::OK | StatusCode::NOT_MODIFIED => "public, max-age=300",
        _ => "no-store",
    };
    response
        .headers_mut()
        .insert(header::CACHE_CONTROL, HeaderValue::from_static(value));
    response
}

/// `groundwork.1FCAbNLiQKrsvkRVYyzFqA.js`: a part between dots that is the build tool's hash.
fn is_hashed(name: &str) -> bool {
    let parts: Vec<&str> = name.split('.').collect();
    parts.len() >= 3
        && parts[1..parts.len() - 1].iter().any(|part| {
            part.len() >= 16
                && part
                    .bytes()
                    .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_with_a_hash_are_kept_for_ever() {
        assert!(is_hashed("groundwork.1FCAbNLiQKrsvkRVYyzFqA.js"));
        assert!(is_hashed("groundwork.9vbnQTKIgLvF9aP_y2XxcA.wasm"));
        assert!(!is_hashed("groundwork.js"));
        assert!(!is_hashed("groundwork.min.js"));
        assert!(!is_hashed("favicon.svg"));
    }
}
