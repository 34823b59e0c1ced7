//! The conversation between a worker and a shim: frames of a JSON header and raw bytes over one socket pair.
//!
//! A frame is `header length (u32, little endian) | body length (u32) | header | body`. Requests carry a number that the
//! reply repeats. Events of a script and its end share one ordered stream, so an end never overtakes output.

use std::{io, net::IpAddr, path::PathBuf, time::Duration};

use bytes::Bytes;
use domain::{
    ids::SandboxId,
    network_policy::NetworkPolicy,
    process::{Command, CommandEnd, PtySize, Sample},
    setup_run::Stream,
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::mounts::Mounted;
use crate::{
    oci::RuntimeKind,
    runtime::{EgressEvent, Event, RuntimeError, SavedLayer, ScriptEnd, ScriptSpec},
};

/// Largest header that is believed, in bytes.
const HEADER_MAX: usize = 16 * 1024 * 1024;
/// Largest body that is believed, in bytes.
const BODY_MAX: usize = 16 * 1024 * 1024;

/// Everything a shim needs to know to make its sandbox.
#[derive(Clone, Serialize, Deserialize)]
pub struct Plan {
    /// The sandbox.
    pub sandbox: SandboxId,
    /// Its directory; exists, empty.
    pub dir: PathBuf,
    /// Directory of the lock files that give out ranges of user ids.
    pub slots_dir: PathBuf,
    /// First id of slot 0.
    pub base_uid: u32,
    /// How many slots there are.
    pub slots: u32,
    /// The OCI runtime's program.
    pub runtime: PathBuf,
    /// Which one it is.
    pub runtime_kind: RuntimeKind,
    /// The runtime's state directory.
    pub runtime_root: PathBuf,
    /// Cgroup path from the root of each hierarchy, such as `/groundwork/ab12cd34.<id>`.
    pub cgroup: String,
    /// Read-only layers, highest first.
    pub lowers: Vec<PathBuf>,
    /// Our init on the host.
    pub init: PathBuf,
    /// Thousandths of a core.
    pub cpu_milli: u32,
    /// MiB.
    pub memory_mib: u32,
    /// Most processes and threads.
    pub pids_max: u32,
    /// Size of the disk in bytes.
    pub disk_bytes: u64,
    /// Bytes of the host's disk that must stay free.
    pub disk_reserve: u64,
    /// Where empty file systems are kept by size.
    pub disk_templates: PathBuf,
    /// Environment of every process, in order.
    pub env: Vec<(String, String)>,
    /// Hosts that may be reached.
    pub network_policy: NetworkPolicy,
    /// Private networks that the deployment opens, as ADDRESS/BITS.
    pub opened: Vec<String>,
    /// Addresses of the control plane besides those of this machine's interfaces.
    pub own_addresses: Vec<IpAddr>,
    /// The nftables program.
    pub nft: PathBuf,
    /// Where saved layers go.
    pub layers_dir: PathBuf,
    /// Digest of the runner image, for [`SavedLayer`].
    pub base_digest: String,
    /// What of the machine appears inside.
    pub mounts: Vec<Mounted>,
    /// The sandbox's whole life.
    pub life: Option<Duration>,
    /// The disk outlives the sandbox, see [`super::kept`].
    pub keep_disk: bool,
    /// The disk is there already.
    pub resume: bool,
}

impl Plan {
    /// Where the directories of this and all other sandboxes of the deployment lie.
    pub fn sandboxes_dir(&self) -> PathBuf {
        self.dir.parent().unwrap_or(&self.dir).to_owned()
    }
}

/// What a worker asks a shim for.
#[derive(Serialize, Deserialize)]
pub enum Request {
    /// Make the sandbox; the first and only the first request.
    Prepare(Box<Plan>),
    /// Run a setup script.
    Run(ScriptSpec),
    /// Kill everything inside.
    Stop,
    /// Kill everything inside and keep the upper layer.
    Save,
    /// Kill everything inside and bring what was written to the kept disk.
    Suspend,
    /// What the sandbox uses now.
    Sample,
}

/// A numbered request.
#[derive(Serialize, Deserialize)]
pub struct Asked {
    /// Repeated by the reply.
    pub number: u64,
    /// What is wanted.
    pub request: Request,
}

/// What a shim answers.
#[derive(Debug, Serialize, Deserialize)]
pub enum Reply {
    /// The sandbox is ready, or everything inside is dead.
    Done,
    /// The script ended.
    Ended(Box<ScriptEnd>),
    /// The layer is kept.
    Saved(SavedLayer),
    /// What it uses.
    Sampled(Sample),
}

/// What a shim says.
#[derive(Debug, Serialize, Deserialize)]
pub enum Said {
    /// The outcome of a request.
    Reply {
        /// Number of the request.
        number: u64,
        /// The outcome.
        result: Result<Reply, RuntimeError>,
    },
    /// An event of the running script.
    Event(EventHeader),
    /// Every process inside is gone.
    Gone,
}

/// The first frame on a socket that a worker hands over: what it is for.
#[derive(Serialize, Deserialize)]
pub enum Opening {
    /// A command. [`Heard`] goes to it, [`Told`] comes from it; the socket's end kills it.
    Exec(Command),
    /// A connection to this port. After [`Told::Connected`] bytes follow as they are.
    Connect(u16),
}

/// What a command is sent.
#[derive(Serialize, Deserialize)]
pub enum Heard {
    /// Bytes for its standard input: the frame's body.
    Input,
    /// There is no more of that.
    InputEnd,
    /// Its terminal has another size.
    Resize(PtySize),
    /// Kill it and everything that it started.
    Kill,
}

/// What a command or a connection says.
#[derive(Debug, Serialize, Deserialize)]
pub enum Told {
    /// Bytes that it wrote: the frame's body.
    Output(Stream),
    /// So many bytes of its input were taken.
    Took(u32),
    /// It ended. The last frame.
    Ended(Result<CommandEnd, RuntimeError>),
    /// It is connected, or not.
    Connected(Result<(), RuntimeError>),
}

/// An [`Event`] without its bytes, which are the frame's body.
#[derive(Debug, Serialize, Deserialize)]
pub enum EventHeader {
    /// See [`Event::Marker`].
    Marker {
        /// Line.
        line: u32,
        /// Source text.
        text: String,
    },
    /// See [`Event::Output`].
    Output(Stream),
    /// See [`Event::System`].
    System(String),
    /// See [`Event::Egress`].
    Egress(EgressEvent),
}

impl EventHeader {
    /// Takes an event apart.
    pub fn split(event: Event) -> (Self, Bytes) {
        match event {
            Event::Marker { line, text } => (Self::Marker { line, text }, Bytes::new()),
            Event::Output { stream, bytes } => (Self::Output(stream), bytes),
            Event::System { text } => (Self::System(text), Bytes::new()),
            Event::Egress(event) => (Self::Egress(event), Bytes::new()),
        }
    }

    /// Puts it together again.
    pub fn join(self, bytes: Bytes) -> Event {
        match self {
            Self::Marker { line, text } => Event::Marker { line, text },
            Self::Output(stream) => Event::Output { stream, bytes },
            Self::System(text) => Event::System { text },
            Self::Egress(event) => Event::Egress(event),
        }
    }
}

/// Lays out a frame.
///
/// # Errors
/// The header cannot be written as JSON, or a part is too large.
pub fn encode<T: Serialize>(header: &T, body: &[u8]) -> io::Result<Vec<u8>> {
    let header = serde_json::to_vec(header).map_err(io::Error::other)?;
    if header.len() > HEADER_MAX || body.len() > BODY_MAX {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "frame too large",
        ));
    }
    let size = |part: &[u8]| u32::try_from(part.len()).map_err(io::Error::other);
    let mut frame = Vec::with_capacity(8 + header.len() + body.len());
    frame.extend_from_slice(&size(&header)?.to_le_bytes());
    frame.extend_from_slice(&size(body)?.to_le_bytes());
    frame.extend_from_slice(&header);
    frame.extend_from_slice(body);
    Ok(frame)
}

/// Lays out a reply. One that fits into no frame is answered by an error in its place: whoever asked waits for an answer.
///
/// # Errors
/// As [`encode`], for an error's text alone.
pub fn reply(number: u64, result: Result<Reply, RuntimeError>) -> io::Result<Vec<u8>> {
    encode(&Said::Reply { number, result }, &[]).or_else(|error| {
        let why = format!("what the sandbox has to say cannot be sent: {error}");
        let result = Err(RuntimeError::Other(why));
        encode(&Said::Reply { number, result }, &[])
    })
}

/// Sizes of header and body from the first eight bytes.
fn sizes(prefix: [u8; 8]) -> io::Result<(usize, usize)> {
    let [a, b, c, d, e, f, g, h] = prefix;
    let header = u32::from_le_bytes([a, b, c, d]) as usize;
    let body = u32::from_le_bytes([e, f, g, h]) as usize;
    if header > HEADER_MAX || body > BODY_MAX {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "frame too large",
        ));
    }
    Ok((header, body))
}

/// Reads a frame; `None` when the stream ended between frames.
///
/// # Errors
/// The stream broke, ended inside a frame, or carried nonsense.
pub async fn read<T: DeserializeOwned>(
    from: &mut (impl AsyncRead + Unpin),
) -> io::Result<Option<(T, Bytes)>> {
    let mut prefix = [0_u8; 8];
    let mut got = 0;
    while got < prefix.len() {
        match from.read(&mut prefix[got..]).await? {
            0 if got == 0 => return Ok(None),
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            count => got += count,
        }
    }
    let (header, body) = sizes(prefix)?;
    let mut data = vec![0_u8; header + body];
    from.read_exact(&mut data).await?;
    let mut data = Bytes::from(data);
    let header = data.split_to(header);
    Ok(Some((
        serde_json::from_slice(&header).map_err(io::Error::other)?,
        data,
    )))
}

/// Reads a frame from a blocking stream.
///
/// # Errors
/// As [`read`].
pub fn read_blocking<T: DeserializeOwned>(from: &mut impl io::Read) -> io::Result<(T, Bytes)> {
    let mut prefix = [0_u8; 8];
    from.read_exact(&mut prefix)?;
    let (header, body) = sizes(prefix)?;
    let mut data = vec![0_u8; header + body];
    from.read_exact(&mut data)?;
    let mut data = Bytes::from(data);
    let header = data.split_to(header);
    Ok((
        serde_json::from_slice(&header).map_err(io::Error::other)?,
        data,
    ))
}

/// Writes a frame.
///
/// # Errors
/// The stream broke.
pub async fn write<T: Serialize>(
    to: &mut (impl AsyncWrite + Unpin),
    header: &T,
    body: &[u8],
) -> io::Result<()> {
    to.write_all(&encode(header, body)?).await
}

#[cfg(test)]
mod tests {
    use domain::limits::SCRIPT_MAX_BYTES;

    use super::*;
    use crate::runtime::EgressOutcome;

    #[tokio::test]
    async fn a_frame_keeps_header_and_bytes() {
        let (header, body) = EventHeader::split(Event::Output {
            stream: Stream::Stderr,
            bytes: Bytes::from_static(b"\x00\xffx"),
        });
        let frame = encode(&Said::Event(header), &body).unwrap();
        let mut twice = frame.clone();
        twice.extend_from_slice(&frame);
        let mut stream = twice.as_slice();
        for _ in 0..2 {
            let (said, body) = read::<Said>(&mut stream).await.unwrap().unwrap();
            let Said::Event(header) = said else {
                panic!("not an event")
            };
            assert_eq!(
                header.join(body),
                Event::Output {
                    stream: Stream::Stderr,
                    bytes: Bytes::from_static(b"\x00\xffx")
                }
            );
        }
        assert!(read::<Said>(&mut stream).await.unwrap().is_none());
    }

    #[tokio::test]
    async fn a_reply_that_fits_into_no_frame_is_answered_by_an_error() {
        let end = |text: usize| {
            Reply::Ended(Box::new(ScriptEnd {
                failed_command: "x".repeat(text),
                ..ScriptEnd::default()
            }))
        };
        for (text, whole) in [(1_024, true), (HEADER_MAX, false)] {
            let frame = reply(7, Ok(end(text))).unwrap();
            let said = read::<Said>(&mut frame.as_slice()).await.unwrap();
            let Some((Said::Reply { number: 7, result }, _)) = said else {
                panic!("not the reply");
            };
            assert_eq!(result.is_ok(), whole, "{text}");
        }
    }

    #[test]
    fn the_fullest_report_of_hosts_fits_into_a_frame() {
        let limits = crate::egress::Limits::default();
        let bytes = limits.record_bytes / limits.records;
        let event = EgressEvent {
            rule: Some(usize::MAX),
            redirected_from: Some(String::new()),
            count: u64::MAX,
            // The character of a host that JSON makes the most of.
            ..EgressEvent::new("\\".repeat(bytes), 65_535, EgressOutcome::UpstreamFailed)
        };
        let end = ScriptEnd {
            timings: vec![(u32::MAX, Duration::MAX); SCRIPT_MAX_BYTES / 2],
            failed_command: "\u{1}".repeat(SCRIPT_MAX_BYTES),
            egress: vec![event; limits.records],
            ..ScriptEnd::default()
        };
        let said = Said::Reply {
            number: u64::MAX,
            result: Ok(Reply::Ended(Box::new(end))),
        };
        assert!(encode(&said, &[]).is_ok());
    }

    #[tokio::test]
    async fn a_cut_or_absurd_frame_is_an_error() {
        let frame = encode(&Said::Event(EventHeader::System("x".into())), b"").unwrap();
        assert!(read::<Said>(&mut &frame[..frame.len() - 1]).await.is_err());
        assert!(read::<Said>(&mut &frame[..3]).await.is_err());
        assert!(read::<Said>(&mut [0xff_u8; 16].as_slice()).await.is_err());
    }
}
