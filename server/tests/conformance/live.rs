//! Served over TCP as the program serves it, with a real database of either kind.

use std::net::SocketAddr;

use axum::body::Body;
use bytes::Bytes;
use http::{Method, Request};
use http_body_util::{BodyExt, Full};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use serde_json::Value;
use testkit::TestOptions;
use tokio::net::TcpListener;

use crate::{
    postgres,
    support::{Answer, Doors, Setting},
};

/// Which database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Sqlite,
    Postgres,
}

impl Kind {
    /// An application on a fresh database of this kind.
    pub fn options(self) -> TestOptions {
        TestOptions {
            database: match self {
                Self::Sqlite => None,
                Self::Postgres => Some(postgres::fresh_database()),
            },
            ..TestOptions::default()
        }
    }
}

/// A server on a port of its own.
pub struct Live {
    pub doors: Doors,
    pub wire: Wire,
}

/// How to reach it.
#[derive(Clone)]
pub struct Wire {
    address: SocketAddr,
    client: Client<HttpConnector, Full<Bytes>>,
}

impl Live {
    pub async fn start(setting: Setting) -> Self {
        let doors = Doors::with(setting).await;
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = doors.router.clone();
        tokio::spawn(async move {
            axum::serve(listener, router).await.unwrap();
        });
        Self {
            doors,
            wire: Wire::to(address),
        }
    }
}

impl Wire {
    /// To a server that somebody else started.
    pub fn to(address: SocketAddr) -> Self {
        Self {
            address,
            client: Client::builder(TokioExecutor::new()).build_http(),
        }
    }

    /// Where it is.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub fn call(&self, method: Method, path: &str) -> Sent {
        Sent {
            wire: self.clone(),
            request: Request::builder()
                .method(method)
                .uri(format!("{}{path}", self.url())),
            body: Bytes::new(),
        }
    }
}

/// A request under construction.
pub struct Sent {
    wire: Wire,
    request: http::request::Builder,
    body: Bytes,
}

impl Sent {
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.request = self.request.header(name, value);
        self
    }
    pub fn bearer(self, key: &str) -> Self {
        self.header("authorization", &format!("Bearer {key}"))
    }
    pub fn keyed(self, key: &str) -> Self {
        self.header("idempotency-key", key)
    }
    pub fn json(self, body: &Value) -> Self {
        self.raw("application/json", body.to_string())
    }
    pub fn raw(mut self, kind: &str, body: impl Into<Bytes>) -> Self {
        self = self.header("content-type", kind);
        self.body = body.into();
        self
    }
    pub async fn send(self) -> Answer {
        let wanted = format!("{:?}", self.request.uri_ref());
        let answer = self.attempt().await;
        answer.unwrap_or_else(|| panic!("no answer from {wanted}"))
    }
    /// The body of a stream, to be read as it comes.
    pub async fn open(self) -> Body {
        let request = self.request.body(Full::new(self.body)).unwrap();
        let answer = self.wire.client.request(request).await.unwrap();
        assert_eq!(answer.status(), 200);
        Body::new(answer.into_body())
    }
    /// None when the connection broke.
    pub async fn attempt(self) -> Option<Answer> {
        let request = self.request.body(Full::new(self.body)).unwrap();
        let (parts, body) = self.wire.client.request(request).await.ok()?.into_parts();
        let bytes = Body::new(body).collect().await.ok()?.to_bytes();
        Some(Answer {
            status: parts.status,
            headers: parts.headers,
            text: String::from_utf8_lossy(&bytes).into_owned(),
        })
    }
}
