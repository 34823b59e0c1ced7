//! Asking a server.

use std::time::Duration;

use http::Method;
use reqwest::{Response, Url, header};
use serde_json::Value;

use super::{
    args::Remote,
    failure::{Failure, Result},
};
use crate::config::client::Stored;

/// Times that a request which may be sent twice is sent.
const TRIES: u32 = 4;
/// Longest time to wait because a server says so.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(30);

/// A server, and the key to it.
#[derive(Clone)]
pub struct Client {
    http: reqwest::Client,
    base: Url,
    key: String,
}

impl Client {
    /// From options, variables, or what `login` stored.
    pub fn new(remote: &Remote) -> Result<Self> {
        let stored = Stored::read().map_err(Failure::new)?;
        let filled = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
        let url = filled(&remote.url)
            .or_else(|| stored.as_ref().map(|stored| stored.url.clone()))
            .ok_or_else(|| {
                Failure::new("No server is known. Run `groundwork login`, or set GROUNDWORK_URL and GROUNDWORK_API_KEY.")
            })?;
        let key = match filled(&remote.api_key) {
            Some(key) => key,
            // A stored key goes to the server that it was stored for, and nowhere else.
            None => match stored {
                Some(stored) if same_server(&stored.url, &url) => stored.api_key,
                _ => {
                    return Err(Failure::new(format!(
                        "No API key for {url} is known. Run `groundwork login --url {url}`, or set GROUNDWORK_API_KEY."
                    )));
                }
            },
        };
        Self::of(&url, &key)
    }

    /// Of a URL and a key.
    pub fn of(url: &str, key: &str) -> Result<Self> {
        let base = parse_url(url)?;
        // One provider of cryptography for the whole program; a second call finds it set already.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let http = reqwest::Client::builder()
            .user_agent(concat!("groundwork/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(Duration::from_secs(10))
            // The server sends something at least every 10 seconds, also on streams.
            .read_timeout(Duration::from_secs(45))
            .redirect(reqwest::redirect::Policy::none())
            .build()
            .map_err(|error| {
                Failure::new(format!("The HTTP client cannot start: {}.", causes(&error)))
            })?;
        Ok(Self {
            http,
            base,
            key: key.to_owned(),
        })
    }

    /// The server's address.
    pub fn base(&self) -> &Url {
        &self.base
    }

    fn url(&self, path: &str) -> Result<Url> {
        self.base
            .join(path.trim_start_matches('/'))
            .map_err(|error| Failure::new(format!("{path} is no path: {error}.")))
    }

    /// `GET`, as JSON.
    pub async fn get(&self, path: &str) -> Result<Value> {
        self.json(Method::GET, path, None, None).await
    }

    /// A request with a body, and a key that makes sending it twice safe.
    pub async fn send(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
        key: Option<&str>,
    ) -> Result<Value> {
        self.json(method, path, body, key).await
    }

    async fn json(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
        key: Option<&str>,
    ) -> Result<Value> {
        let response = self.answer(method, path, body, key, &[]).await?;
        let text = response.text().await.map_err(|error| self.broken(&error))?;
        serde_json::from_str(&text).map_err(|_| {
            Failure::new(format!(
                "{} did not answer JSON; check that the URL is a Groundwork server's.",
                self.base
            ))
        })
    }

    /// An answer with a good status; refusals become failures. What may be sent twice is tried again when the connection
    /// fails or the server says when to come back.
    pub async fn answer(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
        key: Option<&str>,
        headers: &[(&str, &str)],
    ) -> Result<Response> {
        let url = self.url(path)?;
        let again = method == Method::GET || key.is_some();
        let mut tries = 0;
        loop {
            tries += 1;
            let mut request = self
                .http
                .request(method.clone(), url.clone())
                .header(header::AUTHORIZATION, format!("Bearer {}", self.key));
            if let Some(body) = body {
                request = request
                    .header(header::CONTENT_TYPE, "application/json")
                    .body(body.to_string());
            }
            if let Some(key) = key {
                request = request.header("idempotency-key", key);
            }
            for (name, value) in headers {
                request = request.header(*name, *value);
            }
            let wait = match request.send().await {
                Ok(response) if response.status().is_success() => return Ok(response),
                Ok(response) => {
                    let status = response.status().as_u16();
                    let wait = retry_after(&response).filter(|_| matches!(status, 409 | 429 | 503));
                    let failure = self.refusal(response).await;
                    match wait {
                        Some(wait) if again && tries < TRIES && wait <= RETRY_AFTER_MAX => wait,
                        _ => return Err(failure),
                    }
                }
                Err(error) if again && tries < TRIES && !error.is_builder() => {
                    Duration::from_millis(250 * u64::from(tries))
                }
                Err(error) => return Err(self.broken(&error)),
            };
            tokio::time::sleep(wait).await;
        }
    }

    async fn refusal(&self, response: Response) -> Failure {
        let status = response.status();
        if status.is_redirection() {
            let to = response
                .headers()
                .get(header::LOCATION)
                .and_then(|value| value.to_str().ok())
                .unwrap_or("another address");
            return Failure::new(format!(
                "{} sends its callers to {to}: use that address as the URL.",
                self.base
            ));
        }
        let text = response.text().await.unwrap_or_default();
        Failure::refused(
            status.as_u16(),
            serde_json::from_str(&text).unwrap_or(Value::Null),
        )
    }

    fn broken(&self, error: &reqwest::Error) -> Failure {
        Failure::new(format!(
            "{} cannot be reached ({}). Check the URL, and that the server runs.",
            self.base,
            causes(error)
        ))
    }
}

fn retry_after(response: &Response) -> Option<Duration> {
    let text = response.headers().get(header::RETRY_AFTER)?.to_str().ok()?;
    text.parse().ok().map(Duration::from_secs)
}

/// A server's address, with a slash at its end, so that paths are joined below it.
fn parse_url(text: &str) -> Result<Url> {
    let wrong = || {
        Failure::new(format!(
            "{text:?} is no server's address: use one such as https://groundwork.example.com."
        ))
    };
    let mut url = Url::parse(text).map_err(|_| wrong())?;
    if !matches!(url.scheme(), "http" | "https") || url.host().is_none() {
        return Err(wrong());
    }
    url.set_query(None);
    url.set_fragment(None);
    if !url.path().ends_with('/') {
        let path = format!("{}/", url.path());
        url.set_path(&path);
    }
    Ok(url)
}

/// Whether two addresses are of one server.
pub fn same_server(a: &str, b: &str) -> bool {
    matches!((parse_url(a), parse_url(b)), (Ok(a), Ok(b)) if a == b)
}

/// Whether what is sent there can be read on the way.
pub fn is_in_the_clear(url: &Url) -> bool {
    let loopback = match url.host_str() {
        Some("localhost") => true,
        Some(host) => host
            .trim_matches(['[', ']'])
            .parse::<std::net::IpAddr>()
            .is_ok_and(|address| address.is_loopback()),
        None => false,
    };
    url.scheme() == "http" && !loopback
}

/// The innermost cause says the most; URLs are left out, since they are said anyway.
fn causes(error: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_compared_and_checked() {
        assert!(same_server("https://a.example", "https://a.example/"));
        assert!(!same_server("https://a.example", "http://a.example"));
        assert!(!same_server("https://a.example", "https://b.example"));
        for wrong in ["", "a.example", "ftp://a.example", "unix:/x"] {
            assert!(parse_url(wrong).is_err(), "{wrong}");
        }
        let clear = |url: &str| is_in_the_clear(&parse_url(url).unwrap());
        assert!(clear("http://a.example"));
        assert!(!clear("https://a.example"));
        assert!(!clear("http://127.0.0.1:3000"));
        assert!(!clear("http://[::1]:3000"));
    }
}
