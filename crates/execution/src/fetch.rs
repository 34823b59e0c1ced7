//! Files that environments mount from an `https://` address: fetched by the machine before anything runs in the sandbox.
//!
//! The environment's network policy is not asked, because the sandbox does not fetch; but neither the address nor any that
//! it redirects to is ever one that no sandbox may reach, not even one of a private network that the deployment opens. What
//! was judged is what is dialled.

use std::{
    fs::{self, File, OpenOptions},
    io,
    net::IpAddr,
    os::unix::fs::{OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use domain::{limits::MOUNT_FILE_MAX, mounts::shown_source};
use http::{Request, Response, StatusCode, Uri, header};
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use nix::fcntl::{Flock, FlockArg};
use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, ServerName, pem::PemObject},
};
use sha2::{Digest, Sha256};
use tokio::{io::AsyncWriteExt, time::timeout};
use tokio_rustls::TlsConnector;
use url::{Host, Url};

use crate::{
    egress::{
        Resolver,
        dial::{DialLimits, Dialer, NoConnection, Target},
    },
    oci::SANDBOXES,
    runtime::RuntimeError,
    shim::space::Space,
};

/// Redirects that are followed.
const REDIRECTS_MAX: usize = 5;
/// Files fetched at once by this machine share these; sizes are counts.
const DIAL: DialLimits = DialLimits {
    lookups: 8,
    lookup: Duration::from_secs(10),
    dial: Duration::from_secs(10),
};

/// Bounds on one file.
#[derive(Debug, Clone, Copy)]
pub struct FetchLimits {
    /// Bytes.
    pub size: u64,
    /// From the first lookup to the last byte.
    pub whole: Duration,
    /// Until a peer goes on.
    pub quiet: Duration,
}

impl Default for FetchLimits {
    fn default() -> Self {
        Self {
            size: MOUNT_FILE_MAX,
            whole: Duration::from_secs(80),
            quiet: Duration::from_secs(20),
        }
    }
}

/// A file that was fetched. It goes with this value; a sandbox that has it mounted keeps it.
#[derive(Debug)]
pub struct FetchedFile {
    /// Where it lies.
    pub at: PathBuf,
    /// Bytes.
    pub size: u64,
    /// Of its content, in hex.
    pub sha256: String,
    _place: Option<Place>,
}

impl FetchedFile {
    /// A file that is somebody else's to remove.
    pub fn borrowed(at: PathBuf, size: u64, sha256: String) -> Self {
        Self {
            at,
            size,
            sha256,
            _place: None,
        }
    }
}

/// Fetches files into a directory.
pub struct Fetcher {
    dir: PathBuf,
    reserve: u64,
    dialer: Dialer,
    tls: TlsConnector,
    limits: FetchLimits,
}

/// Why a file did not come.
enum Miss {
    /// A phrase for people.
    Because(String),
    /// The machine's disk is full.
    Full,
    /// For the log.
    Io(io::Error),
}

impl From<io::Error> for Miss {
    fn from(error: io::Error) -> Self {
        match error.raw_os_error() {
            Some(libc::ENOSPC | libc::EDQUOT) => Self::Full,
            _ => Self::Io(error),
        }
    }
}

fn because(why: impl Into<String>) -> Miss {
    Miss::Because(why.into())
}

/// What a server said.
enum Answer {
    /// Elsewhere.
    Moved(Url),
    /// Here, with at most so many bytes.
    Body(Incoming, u64),
}

impl Fetcher {
    /// Fetches into `dir`, of whose file system it leaves `reserve` bytes free. `own_addresses`: of the control plane,
    /// besides those of this machine's interfaces. Servers are believed whose certificates go back to `roots`.
    ///
    /// # Errors
    /// No cryptography.
    pub fn new(
        dir: PathBuf,
        reserve: u64,
        own_addresses: Vec<IpAddr>,
        resolver: Arc<dyn Resolver>,
        roots: RootCertStore,
        limits: FetchLimits,
    ) -> io::Result<Self> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let tls = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(io::Error::other)?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Self {
            dir,
            reserve,
            dialer: Dialer::new(resolver, Vec::new(), own_addresses, DIAL),
            tls: TlsConnector::from(Arc::new(tls)),
            limits,
        })
    }

    /// Fetches one file.
    ///
    /// # Errors
    /// [`RuntimeError::Mount`] naming the source (without its query) and the reason; [`RuntimeError::Capacity`] when the
    /// machine's disk has no room.
    pub async fn fetch(&self, source: &str) -> Result<FetchedFile, RuntimeError> {
        let got = timeout(self.limits.whole, self.follow(source))
            .await
            .unwrap_or_else(|_| {
                Err(because(format!(
                    "it took longer than {} seconds",
                    self.limits.whole.as_secs()
                )))
            });
        got.map_err(|miss| {
            let shown = shown_source(source);
            match miss {
                Miss::Because(why) => RuntimeError::Mount(format!(
                    "The file {shown} could not be fetched: {why}. Correct its source in the environment's mounts, or fetch it in the setup script."
                )),
                Miss::Full => {
                    RuntimeError::Capacity(format!("the machine's disk has no room for the file {shown}"))
                }
                Miss::Io(error) => RuntimeError::Other(format!("fetching {shown}: {error}")),
            }
        })
    }

    async fn follow(&self, source: &str) -> Result<FetchedFile, Miss> {
        let mut url = Url::parse(source).map_err(|error| because(error.to_string()))?;
        for _ in 0..=REDIRECTS_MAX {
            match self.ask(&url).await? {
                Answer::Body(body, most) => return self.save(body, most).await,
                Answer::Moved(next) => url = next,
            }
        }
        Err(because(format!(
            "it redirects more than {REDIRECTS_MAX} times"
        )))
    }

    async fn ask(&self, url: &Url) -> Result<Answer, Miss> {
        if url.scheme() != "https" {
            return Err(because(format!(
                "it redirects to {}://, and files come by https:// alone",
                url.scheme()
            )));
        }
        let (target, name) = match url.host() {
            Some(Host::Domain(name)) => {
                let name = name.trim_end_matches('.');
                let server = ServerName::try_from(name.to_owned());
                (Target::Name(Arc::from(name)), server)
            }
            Some(Host::Ipv4(address)) => (
                Target::Address(address.into()),
                Ok(IpAddr::V4(address).into()),
            ),
            Some(Host::Ipv6(address)) => (
                Target::Address(address.into()),
                Ok(IpAddr::V6(address).into()),
            ),
            None => return Err(because("its address has no host")),
        };
        let host = target.host();
        let server = name.map_err(|_| because(format!("{host} is no host name")))?;
        let port = url.port_or_known_default().unwrap_or(443);
        let stream = self
            .dialer
            .dial(&target, port)
            .await
            .map_err(|error| match error {
                NoConnection::Refused(_) => because(format!(
                    "{host} leads to a private address, and files are never fetched from those"
                )),
                NoConnection::Failed(why) => because(format!("{host} cannot be reached ({why})")),
            })?;
        let late = || because(format!("{host} did not answer in time"));
        let stream = timeout(self.limits.quiet, self.tls.connect(server, stream))
            .await
            .map_err(|_| late())?
            .map_err(|error| because(format!("no secure connection to {host} ({error})")))?;
        let broken = |error: hyper::Error| because(format!("{host} broke off ({error})"));
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
            .await
            .map_err(broken)?;
        // Ends with the body, or when that is dropped.
        tokio::spawn(connection);
        let request = request(url).map_err(|error| because(error.to_string()))?;
        let response = timeout(self.limits.quiet, sender.send_request(request))
            .await
            .map_err(|_| late())?
            .map_err(broken)?;
        self.read_head(url, &host, response)
    }

    fn read_head(
        &self,
        url: &Url,
        host: &str,
        response: Response<Incoming>,
    ) -> Result<Answer, Miss> {
        let status = response.status();
        let header = |name| {
            response
                .headers()
                .get(name)
                .and_then(|value| value.to_str().ok())
        };
        if is_redirect(status) {
            let to = header(header::LOCATION)
                .and_then(|to| url.join(to).ok())
                .ok_or_else(|| because(format!("{host} redirects to nowhere")))?;
            return Ok(Answer::Moved(to));
        }
        if status != StatusCode::OK {
            return Err(because(format!("{host} answered {status}")));
        }
        let announced = header(header::CONTENT_LENGTH).and_then(|size| size.parse::<u64>().ok());
        if let Some(size) = announced.filter(|size| *size > self.limits.size) {
            return Err(self.too_large(Some(size)));
        }
        let most = announced.unwrap_or(self.limits.size);
        Ok(Answer::Body(response.into_body(), most))
    }

    fn too_large(&self, size: Option<u64>) -> Miss {
        let most = self.limits.size >> 20;
        because(match size {
            Some(size) => format!(
                "it has {} MiB, and a file may have at most {most}",
                size.div_ceil(1 << 20)
            ),
            None => format!("it has more than {most} MiB, the most that a file may have"),
        })
    }

    async fn save(&self, mut body: Incoming, most: u64) -> Result<FetchedFile, Miss> {
        let space = Space {
            dir: self.dir.clone(),
            sandboxes: self.dir.with_file_name(SANDBOXES),
            reserve: self.reserve,
        };
        let mut watch = space.watch();
        let of_it = space.clone();
        let taking = tokio::task::spawn_blocking(move || Place::promised(&of_it, most));
        let (place, file) = taking.await.map_err(io::Error::other)??;
        let mut file = tokio::fs::File::from_std(file);
        let (mut size, mut hash) = (0_u64, Sha256::new());
        loop {
            let frame = timeout(self.limits.quiet, body.frame()).await;
            let frame = frame.map_err(|_| because("the server stopped in the middle"))?;
            let Some(frame) = frame else { break };
            let frame =
                frame.map_err(|error| because(format!("it broke off in the middle ({error})")))?;
            let Some(data) = frame.data_ref() else {
                continue;
            };
            size += data.len() as u64;
            if size > self.limits.size {
                return Err(self.too_large(None));
            }
            hash.update(data);
            file.write_all(data).await?;
            watch(data.len() as u64)?;
        }
        file.flush().await?;
        file.set_len(size).await?;
        fs::set_permissions(&place.path, fs::Permissions::from_mode(0o444))?;
        Ok(FetchedFile {
            at: place.path.clone(),
            size,
            sha256: hex::encode(hash.finalize()),
            _place: Some(place),
        })
    }
}

fn is_redirect(status: StatusCode) -> bool {
    matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308)
}

fn request(url: &Url) -> Result<Request<Empty<Bytes>>, http::Error> {
    let path = match url.query() {
        Some(query) => format!("{}?{query}", url.path()),
        None => url.path().to_owned(),
    };
    let host = match (url.host_str().unwrap_or_default(), url.port()) {
        (host, Some(port)) => format!("{host}:{port}"),
        (host, None) => host.to_owned(),
    };
    Request::get(path.parse::<Uri>()?)
        .header(header::HOST, host)
        .header(
            header::USER_AGENT,
            concat!("groundwork/", env!("CARGO_PKG_VERSION")),
        )
        .header(header::ACCEPT, "*/*")
        .header(header::ACCEPT_ENCODING, "identity")
        .header(header::CONNECTION, "close")
        .body(Empty::new())
}

/// A file of our own in the directory, locked while it is in use, and removed then.
#[derive(Debug)]
struct Place {
    path: PathBuf,
    _lock: Flock<File>,
}

impl Place {
    /// One with room for so many bytes: the disk keeps its reserve, and what sandboxes and files beside were promised.
    fn promised(space: &Space, bytes: u64) -> io::Result<(Self, File)> {
        let _one = space.lock()?;
        space.need(bytes.max(1))?;
        let (place, file) = Self::take(&space.dir)?;
        file.set_len(bytes)?;
        Ok((place, file))
    }

    /// The file is open for writing; the lock is on a description of its own.
    fn take(dir: &Path) -> io::Result<(Self, File)> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        loop {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let path = dir.join(format!("{}.{number}", std::process::id()));
            let made = OpenOptions::new()
                .write(true)
                .create_new(true)
                .mode(0o600)
                .open(&path);
            match made {
                Ok(file) => {
                    let lock = Flock::lock(File::open(&path)?, FlockArg::LockExclusive)
                        .map_err(|(_, error)| error)?;
                    return Ok((Self { path, _lock: lock }, file));
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_file(&self.path)
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!(%error, path = %self.path.display(), "a fetched file stays");
        }
    }
}

/// Files that were left by processes that are gone.
pub(crate) fn left(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries
        .map(|entry| entry.path())
        .filter(|path| {
            File::open(path)
                .is_ok_and(|file| Flock::lock(file, FlockArg::LockExclusiveNonblock).is_ok())
        })
        .collect()
}

/// The certificates that this machine believes, and those of these files (PEM).
pub(crate) fn machine_roots(more: &[PathBuf]) -> RootCertStore {
    let mut roots = RootCertStore::empty();
    let native = rustls_native_certs::load_native_certs();
    for error in native.errors {
        tracing::warn!(%error, "a certificate of this machine cannot be read");
    }
    roots.add_parsable_certificates(native.certs);
    for path in more {
        match CertificateDer::pem_file_iter(path) {
            Ok(found) => {
                roots.add_parsable_certificates(found.filter_map(Result::ok));
            }
            Err(error) => {
                tracing::warn!(%error, path = %path.display(), "a certificate cannot be read");
            }
        }
    }
    roots
}

#[cfg(test)]
#[path = "fetch_tests.rs"]
mod tests;
