//! Images from and to registries.

use std::{
    fs,
    io::{self, BufReader},
    net::IpAddr,
    path::{Path, PathBuf},
    str::FromStr,
    time::Duration,
};

use flate2::read::MultiGzDecoder;
use oci_client::{
    Client, Reference,
    client::{ClientConfig, ClientProtocol},
    errors::OciDistributionError,
    manifest::{
        IMAGE_DOCKER_LAYER_GZIP_MEDIA_TYPE, IMAGE_DOCKER_LAYER_TAR_MEDIA_TYPE,
        IMAGE_LAYER_GZIP_MEDIA_TYPE, IMAGE_LAYER_MEDIA_TYPE, OCI_IMAGE_MEDIA_TYPE, OciDescriptor,
    },
    secrets::RegistryAuth,
};
use serde::Deserialize;
use sha2::{Digest, Sha256};
use tokio::io::AsyncWrite;
use tokio_util::io::ReaderStream;

use super::{
    ImageStore, RunnerImage, Variant,
    bounded::{Bounded, Cut, Hashed, PACKED_MAX, announced, room},
    bytes_on_disk, hex_of,
    layout::{ImageContents, Scratch, blob_path},
    needs,
    unpack::Unpacker,
};

/// Largest image configuration that is read.
const CONFIG_MAX: u64 = 4 << 20;
/// How long signing in and the manifest may take.
const MANIFEST_WITHIN: Duration = Duration::from_secs(60);
/// Most layers of an image.
const LAYERS_MAX: usize = 128;

/// Why an image did not come or go; each text is a sentence that says what to do.
#[derive(Debug, thiserror::Error)]
pub enum RegistryError {
    /// The reference.
    #[error(
        "{0} is no image reference with a registry; write REGISTRY/NAME:TAG, such as registry.example.com/team/runner:1."
    )]
    Reference(String),
    /// The registry refused or cannot be reached.
    #[error(
        "The registry {registry} did not do it: {why}. Check that it can be reached, that the image is there, and the credentials (GROUNDWORK_REGISTRY_USERNAME, GROUNDWORK_REGISTRY_PASSWORD)."
    )]
    Registry {
        /// Which.
        registry: String,
        /// In its words.
        why: String,
    },
    /// The image is not what a runner image must be, or not what it says it is.
    #[error("The image {reference} cannot be used: {why}.")]
    Image {
        /// Which.
        reference: String,
        /// What is wrong.
        why: String,
    },
    /// Files could not be written or read.
    #[error("The image could not be stored: {0}.")]
    Io(#[from] io::Error),
}

/// Who asks a registry.
#[derive(Clone)]
pub enum Login {
    /// Nobody in particular.
    Anonymous,
    /// A user with a password.
    Basic(String, String),
}

impl std::fmt::Debug for Login {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Anonymous => f.write_str("Anonymous"),
            Self::Basic(user, _) => write!(f, "Basic({user}, …)"),
        }
    }
}

impl Login {
    fn auth(&self) -> RegistryAuth {
        match self {
            Self::Anonymous => RegistryAuth::Anonymous,
            Self::Basic(user, password) => RegistryAuth::Basic(user.clone(), password.clone()),
        }
    }
}

/// Whether a reference means an image of a registry, and not one of those that are built here.
pub fn is_remote(reference: &str) -> bool {
    Variant::of_reference(reference).is_none()
}

/// A reference that names its registry: there is none that everybody means.
fn parse(text: &str) -> Result<Reference, RegistryError> {
    let wrong = || RegistryError::Reference(text.to_owned());
    let (registry, _) = text.split_once('/').ok_or_else(wrong)?;
    if !registry.contains(['.', ':']) && registry != "localhost" {
        return Err(wrong());
    }
    Reference::from_str(text).map_err(|_| wrong())
}

/// Whether a registry's host is this machine: only there is plain HTTP spoken.
fn is_loopback(registry: &str) -> bool {
    let host = match registry.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => registry.rsplit_once(':').map_or(registry, |(host, _)| host),
    };
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

fn client(reference: &Reference) -> Client {
    // Another part of the program may have chosen already; all choices are as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
    Client::new(ClientConfig {
        protocol: if is_loopback(reference.registry()) {
            ClientProtocol::Http
        } else {
            ClientProtocol::Https
        },
        read_timeout: Some(Duration::from_secs(60)),
        connect_timeout: Some(Duration::from_secs(15)),
        user_agent: concat!("groundwork/", env!("CARGO_PKG_VERSION")),
        ..ClientConfig::default()
    })
}

fn failed(reference: &Reference) -> impl Fn(OciDistributionError) -> RegistryError + '_ {
    |error| RegistryError::Registry {
        registry: reference.registry().to_owned(),
        why: error.to_string().trim_end_matches('.').to_owned(),
    }
}

/// The part of an image's configuration that is needed.
#[derive(Deserialize)]
struct Config {
    os: String,
    architecture: String,
    rootfs: RootFs,
}

#[derive(Deserialize)]
struct RootFs {
    diff_ids: Vec<String>,
}

/// Packs an image and sends it to a registry; answers its digest. `scratch` is a directory for the packed layers.
///
/// # Errors
/// See [`RegistryError`].
pub async fn push(
    contents: ImageContents,
    reference: &str,
    login: &Login,
    scratch: &Path,
    mut progress: impl FnMut(&str) + Send + 'static,
) -> Result<String, RegistryError> {
    let target = parse(reference)?;
    let scratch = scratch.to_owned();
    let (work, layout, mut progress) = tokio::task::spawn_blocking(move || {
        let work = Scratch::new(&scratch)?;
        let layout = contents.write_layout(&work.path.join("layout"), &mut progress)?;
        io::Result::Ok((work, layout, progress))
    })
    .await
    .map_err(io::Error::other)??;
    let client = client(&target);
    client
        .auth(&target, &login.auth(), oci_client::RegistryOperation::Push)
        .await
        .map_err(failed(&target))?;
    for (digest, size) in &layout.blobs {
        if client
            .blob_exists(&target, digest)
            .await
            .map_err(failed(&target))?
        {
            progress(&format!("{digest} is there already"));
            continue;
        }
        progress(&format!("sending {digest} ({} KiB)", size.div_ceil(1024)));
        let file = tokio::fs::File::open(blob_path(&work.path.join("layout"), digest)).await?;
        let stream = futures::StreamExt::map(ReaderStream::with_capacity(file, 1 << 20), |read| {
            read.map_err(|error| OciDistributionError::GenericError(Some(error.to_string())))
        });
        client
            .push_blob_stream(&target, stream, digest, Some(*size))
            .await
            .map_err(failed(&target))?;
    }
    let media_type = http_value(OCI_IMAGE_MEDIA_TYPE)?;
    client
        .push_manifest_raw(&target, layout.manifest.clone(), media_type)
        .await
        .map_err(failed(&target))?;
    Ok(layout.digest)
}

fn http_value(text: &'static str) -> io::Result<http::HeaderValue> {
    Ok(http::HeaderValue::from_static(text))
}

impl ImageStore {
    /// Directory of a pulled image.
    pub(super) fn pulled_dir(&self, digest: &str) -> Option<PathBuf> {
        Some(
            self.root()
                .join("runner")
                .join(format!("oci-{}", hex_of(digest)?)),
        )
    }

    /// Gets a runner image from a registry, or finds the very same one here already. `progress` gets a sentence for each
    /// step. Nothing half-made is ever found as an image.
    ///
    /// # Errors
    /// See [`RegistryError`]; an image that is here already is as it was then.
    pub async fn pull_runner(
        &self,
        reference: &str,
        login: &Login,
        mut progress: impl FnMut(&str) + Send,
    ) -> Result<RunnerImage, RegistryError> {
        let source = parse(reference)?;
        let unusable = |why: String| RegistryError::Image {
            reference: reference.to_owned(),
            why,
        };
        let client = client(&source);
        progress(&format!("asking {} for {reference}", source.registry()));
        let auth = login.auth();
        let asking = client.pull_image_manifest(&source, &auth);
        let (manifest, digest) = tokio::time::timeout(MANIFEST_WITHIN, asking)
            .await
            .map_err(|_| unusable("its manifest does not come to an end".into()))?
            .map_err(failed(&source))?;
        let dir = self
            .pulled_dir(&digest)
            .ok_or_else(|| unusable(format!("its digest {digest} is not sha256")))?;
        if let Some(image) = super::read_image(&dir)? {
            let image = RunnerImage {
                reference: reference.to_owned(),
                ..image
            };
            self.name_pulled(&image)?;
            progress(&format!("{reference} is here already ({digest})"));
            return Ok(image);
        }
        if manifest.layers.len() > LAYERS_MAX {
            return Err(unusable(format!("it has more than {LAYERS_MAX} layers")));
        }
        let size = announced(&manifest.config, CONFIG_MAX).map_err(unusable)?;
        let config = Bounded::new(Vec::new(), size, None);
        let config = fetch(&client, &source, &manifest.config, config).await?;
        let config: Config = serde_json::from_slice(&config)
            .map_err(|error| unusable(format!("its configuration cannot be read ({error})")))?;
        if (config.os.as_str(), config.architecture.as_str()) != ("linux", "amd64") {
            return Err(unusable(format!(
                "it is for {}/{}, and sandboxes here are linux/amd64",
                config.os, config.architecture
            )));
        }
        if config.rootfs.diff_ids.len() != manifest.layers.len() {
            return Err(unusable(
                "its configuration names other layers than its manifest".into(),
            ));
        }
        let parent = self.root().join("runner");
        super::make_private(&parent)?;
        let work = Scratch::new(&parent)?;
        let rootfs = work.path.join("image/rootfs");
        fs::create_dir_all(&rootfs)?;
        let mut unpacker = Unpacker::new(&rootfs)?;
        let (count, mut left) = (manifest.layers.len(), PACKED_MAX);
        for (index, layer) in manifest.layers.iter().enumerate() {
            progress(&format!(
                "layer {} of {count}: fetching {} KiB",
                index + 1,
                layer.size / 1024
            ));
            let size = announced(layer, left).map_err(unusable)?;
            left -= size;
            room(&work.path, size)?;
            let packed = work.path.join("layer");
            let file = tokio::fs::File::create(&packed).await?;
            let file = Bounded::new(file, size, Some(&work.path));
            fetch(&client, &source, layer, file).await?;
            progress(&format!("layer {} of {count}: unpacking", index + 1));
            let gzip = match layer.media_type.as_str() {
                IMAGE_LAYER_GZIP_MEDIA_TYPE | IMAGE_DOCKER_LAYER_GZIP_MEDIA_TYPE => true,
                IMAGE_LAYER_MEDIA_TYPE | IMAGE_DOCKER_LAYER_TAR_MEDIA_TYPE => false,
                other => {
                    return Err(unusable(format!(
                        "layer {} is of the type {other}; push it compressed with gzip",
                        index + 1
                    )));
                }
            };
            let expected = config.rootfs.diff_ids[index].clone();
            unpacker =
                tokio::task::spawn_blocking(move || unpack(unpacker, &packed, gzip, &expected))
                    .await
                    .map_err(io::Error::other)?
                    .map_err(|error| match error.kind() {
                        io::ErrorKind::InvalidData | io::ErrorKind::Other => {
                            unusable(error.to_string())
                        }
                        _ => RegistryError::Io(error),
                    })?;
        }
        if unpacker.devices > 0 {
            progress(&format!("left out {} device nodes", unpacker.devices));
        }
        for made in needs::prepare(&unpacker).map_err(|error| unusable(error.to_string()))? {
            progress(&made);
        }
        let image = RunnerImage {
            reference: reference.to_owned(),
            digest: digest.clone(),
            size_bytes: bytes_on_disk(&rootfs)?,
            key: String::new(),
        };
        super::write_image(&work.path.join("image"), &image)?;
        nix::unistd::syncfs(fs::File::open(&rootfs)?).map_err(io::Error::from)?;
        fs::rename(work.path.join("image"), &dir)?;
        self.name_pulled(&image)?;
        progress(&format!("{reference} is ready ({digest})"));
        Ok(image)
    }

    /// Notes that a reference means this image from now on.
    fn name_pulled(&self, image: &RunnerImage) -> io::Result<()> {
        let Some(dir) = self.pulled_dir(&image.digest) else {
            return Ok(());
        };
        super::write_image(&dir, image)?;
        let names = self.root().join("runner/references");
        super::make_private(&names)?;
        let name = names.join(hex::encode(Sha256::digest(&image.reference)));
        let partial = name.with_extension("partial");
        fs::write(&partial, &image.digest)?;
        fs::rename(partial, name)
    }

    /// Digests of the pulled images that references mean, each once.
    pub(super) fn named_digests(&self) -> io::Result<std::collections::BTreeSet<String>> {
        let dir = self.root().join("runner/references");
        let mut digests = std::collections::BTreeSet::new();
        for name in super::layers::names(&dir)? {
            if !name.contains('.') {
                digests.insert(fs::read_to_string(dir.join(name))?);
            }
        }
        Ok(digests)
    }

    /// Digest of the pulled image that a reference meant last.
    pub(super) fn pulled_digest(&self, reference: &str) -> io::Result<Option<String>> {
        let name = hex::encode(Sha256::digest(reference));
        match fs::read_to_string(self.root().join("runner/references").join(name)) {
            Ok(digest) => Ok(Some(digest)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Fetches a part of an image. Its digest is checked on the way, and its size is what was announced.
async fn fetch<W: AsyncWrite + Unpin>(
    client: &Client,
    source: &Reference,
    part: &OciDescriptor,
    mut to: Bounded<W>,
) -> Result<W, RegistryError> {
    let sent = client.pull_blob(source, &without_urls(part), &mut to).await;
    let other = |amount: &str| RegistryError::Image {
        reference: source.to_string(),
        why: format!(
            "its registry sends {amount} of {} than the {} bytes that its manifest announces",
            part.digest, part.size
        ),
    };
    match (to.cut, sent) {
        (Some(Cut::More), _) => Err(other("more")),
        (Some(Cut::Full), _) => Err(io::Error::from_raw_os_error(libc::ENOSPC).into()),
        (None, Err(error)) => Err(failed(source)(error)),
        (None, Ok(())) if to.left > 0 => Err(other("less")),
        (None, Ok(())) => Ok(to.out),
    }
}

/// A descriptor that only its registry can serve: an image does not choose which other hosts we ask.
fn without_urls(descriptor: &OciDescriptor) -> OciDescriptor {
    OciDescriptor {
        urls: None,
        ..descriptor.clone()
    }
}

fn unpack(
    mut unpacker: Unpacker,
    packed: &Path,
    gzip: bool,
    expected: &str,
) -> io::Result<Unpacker> {
    let file = BufReader::with_capacity(1 << 20, fs::File::open(packed)?);
    let from: Box<dyn io::Read> = if gzip {
        Box::new(MultiGzDecoder::new(file))
    } else {
        Box::new(file)
    };
    let mut tar = Hashed::new(from, unpacker.stream);
    unpacker.layer(&mut tar)?;
    // What follows the archive's end is part of the digest too.
    io::copy(&mut tar, &mut io::sink())?;
    let (found, left) = tar.end();
    unpacker.stream = left;
    if found != expected {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            format!("a layer's contents are {found}, and its configuration says {expected}"),
        ));
    }
    fs::remove_file(packed)?;
    Ok(unpacker)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reference_names_its_registry() {
        for good in [
            "registry.example.com/a/b:1",
            "localhost/a",
            "127.0.0.1:5000/a:b",
            "[::1]:5000/x",
        ] {
            let parsed = parse(good);
            assert!(
                parsed.is_ok() || good.starts_with('['),
                "{good}: {parsed:?}"
            );
        }
        for bad in [
            "",
            "debian",
            "debian:12",
            "library/debian",
            "registry.example.com/",
            "REGISTRY.example/A b",
        ] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn plain_http_is_for_this_machine_alone() {
        for near in [
            "localhost",
            "localhost:5000",
            "127.0.0.1:5000",
            "127.9.9.9",
            "[::1]:5000",
        ] {
            assert!(is_loopback(near), "{near}");
        }
        for far in [
            "registry.example.com",
            "10.0.0.1:5000",
            "localhost.example.com:80",
            "0.0.0.0:5000",
        ] {
            assert!(!is_loopback(far), "{far}");
        }
    }
}
