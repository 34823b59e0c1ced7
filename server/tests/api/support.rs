//! A server in process, and how tests talk to it.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use axum::{Router, body::Body, extract::ConnectInfo};
use control::{OpCtx, api_keys::ApiKeyRequest};
use domain::roles::Role;
use http::{HeaderMap, Method, Request, StatusCode, header};
use http_body_util::BodyExt;
use leptos::config::LeptosOptions;
use serde_json::Value;
use server::http::{
    AppParts, AppState,
    limits::{Rate, RateLimiter},
    origin::Origins,
    router,
};
use testkit::{TestApp, TestIds, TestOptions};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

/// The organization's members and their keys, by role.
pub struct Doors {
    pub app: TestApp,
    pub stop: CancellationToken,
    pub admin: String,
    pub developer: String,
    pub user: String,
    pub router: Router,
    state: AppState,
    _site: tempfile::TempDir,
}

/// What a server differs in.
pub struct Setting {
    pub options: TestOptions,
    pub key_rate: Rate,
    pub address_rate: Rate,
    pub origins: Origins,
    /// Where TCP connections seem to come from.
    pub peer: SocketAddr,
}

impl Default for Setting {
    fn default() -> Self {
        Self {
            options: TestOptions::default(),
            key_rate: Rate::new(1_000, 100_000),
            address_rate: Rate::new(1_000, 100_000),
            origins: Origins::default(),
            peer: SocketAddr::from(([192, 0, 2, 7], 40_000)),
        }
    }
}

/// Addresses of the members that have a key.
pub const ADMIN: &str = "admin@example.com";
pub const DEVELOPER: &str = "dev@example.com";
pub const USER: &str = "user@example.com";

impl Doors {
    pub async fn open() -> Self {
        Self::with(Setting::default()).await
    }

    pub async fn with(setting: Setting) -> Self {
        let app = TestApp::with(setting.options).await;
        app.member(Role::Developer, DEVELOPER).await;
        app.member(Role::User, USER).await;
        let admin = key(&app, ADMIN, Role::Admin).await;
        let developer = key(&app, DEVELOPER, Role::Developer).await;
        let user = key(&app, USER, Role::User).await;
        let site = tempfile::tempdir().unwrap();
        std::fs::create_dir(site.path().join("pkg")).unwrap();
        std::fs::write(
            site.path().join("pkg/groundwork.0123456789abcdefABCDEF.js"),
            "1",
        )
        .unwrap();
        std::fs::write(
            site.path()
                .join("pkg/groundwork.0123456789abcdefABCDEF.js.br"),
            "br",
        )
        .unwrap();
        std::fs::write(site.path().join("favicon.svg"), "<svg/>").unwrap();
        let stop = CancellationToken::new();
        let state = AppState::from(AppParts {
            control: app.control.clone(),
            ids: Arc::new(TestIds::after_restart()),
            metrics: Arc::default(),
            limiter: Arc::new(RateLimiter::new(
                app.clock.clone(),
                setting.key_rate,
                setting.address_rate,
            )),
            origins: setting.origins,
            sign_in_idle: Duration::from_secs(7 * 86_400),
            stop: stop.clone(),
            leptos: LeptosOptions::builder()
                .output_name("groundwork")
                .site_root(site.path().to_string_lossy().into_owned())
                .site_pkg_dir("pkg")
                .build(),
        });
        let router = router(state.clone()).layer(axum::Extension(ConnectInfo(setting.peer)));
        Self {
            app,
            stop,
            admin,
            developer,
            user,
            router,
            state,
            _site: site,
        }
    }

    /// The doors, to be served on a port.
    pub fn router(&self) -> Router {
        self.router.clone()
    }

    /// What the doors are made from.
    pub fn state(&self) -> AppState {
        self.state.clone()
    }

    /// The key of a role.
    pub fn key_of(&self, role: Role) -> &str {
        match role {
            Role::Admin => &self.admin,
            Role::Developer => &self.developer,
            Role::User => &self.user,
        }
    }

    /// A request that can be completed and sent.
    pub fn call(&self, method: Method, path: &str) -> Call<'_> {
        Call {
            router: &self.router,
            method: method.clone(),
            target: path.to_owned(),
            request: Request::builder().method(method).uri(path),
            body: Body::empty(),
        }
    }

    pub fn get(&self, path: &str) -> Call<'_> {
        self.call(Method::GET, path)
    }

    pub fn post(&self, path: &str) -> Call<'_> {
        self.call(Method::POST, path)
    }
}

/// A fresh key of a member.
pub async fn key(app: &TestApp, email: &str, role: Role) -> String {
    app.control
        .create_api_key_for(
            &OpCtx::system("test"),
            email,
            ApiKeyRequest {
                name: "test".to_owned(),
                role,
                expires_in_days: None,
            },
        )
        .await
        .unwrap()
        .secret
        .expose()
        .to_owned()
}

/// A request under construction.
pub struct Call<'d> {
    router: &'d Router,
    method: Method,
    target: String,
    request: http::request::Builder,
    body: Body,
}

impl Call<'_> {
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.request = self.request.header(name, value);
        self
    }

    pub fn bearer(self, key: &str) -> Self {
        self.header("authorization", &format!("Bearer {key}"))
    }

    pub fn json(self, body: &Value) -> Self {
        self.raw("application/json", body.to_string())
    }

    pub fn raw(mut self, kind: &str, body: impl Into<Body>) -> Self {
        self = self.header("content-type", kind);
        self.body = body.into();
        self
    }

    /// A form as the console's script posts it.
    pub fn form(self, fields: &[(&str, &str)]) -> Self {
        let body = form_urlencoded::Serializer::new(String::new())
            .extend_pairs(fields)
            .finish();
        self.header("sec-fetch-site", "same-origin")
            .raw("application/x-www-form-urlencoded", body)
    }

    /// Sends it and waits for the head of the answer.
    pub async fn open(self) -> http::Response<Body> {
        self.router
            .clone()
            .oneshot(self.request.body(self.body).unwrap())
            .await
            .unwrap()
    }

    /// The same for a task of its own.
    pub fn detached(
        self,
        router: Router,
    ) -> impl Future<Output = http::Response<Body>> + Send + 'static {
        let request = self.request.body(self.body).unwrap();
        async move { router.oneshot(request).await.unwrap() }
    }

    /// Sends it, reads the answer, and holds it against the description of the API.
    pub async fn send(self) -> Answer {
        let (method, target) = (self.method.clone(), self.target.clone());
        let (parts, body) = self.open().await.into_parts();
        let bytes = body.collect().await.unwrap().to_bytes();
        let answer = Answer {
            status: parts.status,
            headers: parts.headers,
            text: String::from_utf8_lossy(&bytes).into_owned(),
        };
        // Compressed bytes are not ours to read.
        if answer.header("content-encoding").is_none() {
            crate::described::check(&method, &target, &answer);
        }
        answer
    }
}

/// An answer.
#[derive(Debug)]
pub struct Answer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub text: String,
}

impl Answer {
    #[track_caller]
    pub fn ok(&self) -> Value {
        assert!(self.status.is_success(), "{self:#?}");
        self.json()
    }

    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|e| panic!("{e}: {self:#?}"))
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// Checks that this is the error in the API's shape, and gives its details.
    #[track_caller]
    pub fn refused(&self, status: u16, code: &str) -> Value {
        let body = self.json();
        assert_eq!(
            (self.status.as_u16(), body["code"].as_str()),
            (status, Some(code)),
            "{self:#?}"
        );
        let object = body.as_object().unwrap();
        for key in object.keys() {
            assert!(
                ["code", "message", "details"].contains(&key.as_str()),
                "{key} is not part of the shape"
            );
        }
        let message = body["message"].as_str().unwrap();
        assert!(message.ends_with(['.', '}']), "not a sentence: {message}");
        assert_eq!(
            self.header("content-type"),
            Some("application/json"),
            "{self:#?}"
        );
        assert_eq!(
            body["details"]["requestId"].as_str(),
            self.header("x-request-id"),
            "the request's id is in the header and in the details"
        );
        body["details"].clone()
    }

    /// The sign-in cookie as `name=value`, if the answer sets one.
    pub fn cookie(&self) -> Option<String> {
        self.headers
            .get_all(header::SET_COOKIE)
            .iter()
            .filter_map(|value| value.to_str().ok())
            .find(|text| text.starts_with("groundwork_session="))
            .and_then(|text| text.split(';').next())
            .map(str::to_owned)
    }
}
