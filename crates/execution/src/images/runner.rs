//! Building a runner image: the definition lies in `/runner` and is part of the program, so that the binary alone can
//! build it on any Debian machine.

use std::{
    fs,
    io::{BufRead, BufReader, Read},
    path::Path,
    process::{Command, Stdio},
};

use sha2::{Digest, Sha256};

use super::{ImageStore, RunnerImage};

const FILES: [(&str, &str); 4] = [
    ("build.sh", include_str!("../../../../runner/build.sh")),
    (
        "full.packages",
        include_str!("../../../../runner/full.packages"),
    ),
    (
        "small.packages",
        include_str!("../../../../runner/small.packages"),
    ),
    ("tools.env", include_str!("../../../../runner/tools.env")),
];

/// Which package list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Variant {
    /// For tests and quick trials.
    Small,
    /// What agents work in.
    Full,
}

impl Variant {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Small, Self::Full];

    /// The word on the command line.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Small => "small",
            Self::Full => "full",
        }
    }

    /// The image reference, such as `groundwork/runner:full`.
    pub const fn reference(self) -> &'static str {
        match self {
            Self::Small => "groundwork/runner:small",
            Self::Full => "groundwork/runner:full",
        }
    }

    /// The variant of a reference of ours.
    pub fn of_reference(reference: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|variant| variant.reference() == reference)
    }
}

/// Why an image was not built; each text is a sentence that says what to do.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// Not root.
    #[error("Building a runner image needs root: run the command as root or with sudo.")]
    NotRoot,
    /// A tool is missing.
    #[error(
        "Building a runner image needs {0}, which is not installed: run `make deps`, or install it with apt-get."
    )]
    MissingTool(&'static str),
    /// The disk is too full.
    #[error(
        "Building the runner image needs {needed_mib} MiB of free disk under {path}, and {free_mib} MiB are free."
    )]
    NoSpace {
        /// Where.
        path: String,
        /// Needed.
        needed_mib: u64,
        /// Free.
        free_mib: u64,
    },
    /// A step failed; carries the last lines it wrote.
    #[error("Building the runner image failed while {step}. Its last words: {tail}")]
    Step {
        /// What was under way.
        step: String,
        /// The end of its standard error.
        tail: String,
    },
    /// Files could not be written or read.
    #[error("The runner image could not be stored: {0}")]
    Io(#[from] std::io::Error),
}

impl ImageStore {
    /// Builds a runner image, or finds it built already from the same definition. `refresh`: builds it in any case, from
    /// the packages of today; of the same packages it becomes the same image. `progress` gets a sentence for each step.
    /// Nothing half-made is ever found as an image: the directory is renamed into place when complete. The image before
    /// stays while something stands on it.
    ///
    /// # Errors
    /// See [`BuildError`].
    pub fn build_runner(
        &self,
        variant: Variant,
        refresh: bool,
        mut progress: impl FnMut(&str),
    ) -> Result<RunnerImage, BuildError> {
        let key = definition_key(variant);
        if let Some(image) = self.runner_image(variant.reference())?
            && image.key == key
            && !refresh
        {
            progress(&format!(
                "{} is built already ({})",
                image.reference, image.digest
            ));
            return Ok(image);
        }
        if !nix::unistd::geteuid().is_root() {
            return Err(BuildError::NotRoot);
        }
        for tool in ["mmdebstrap", "python3", "npm", "tar", "chroot"] {
            if !on_path(tool) {
                return Err(BuildError::MissingTool(tool));
            }
        }
        let parent = self.root().join("runner");
        super::make_private(&parent)?;
        require_space(
            &parent,
            if variant == Variant::Full {
                3_500
            } else {
                1_500
            },
        )?;

        let partial = parent.join(format!("{}.partial", variant.as_str()));
        remove_dir(&partial)?;
        let (definition, work) = (partial.join("definition"), partial.join("work"));
        fs::create_dir_all(&definition)?;
        fs::create_dir_all(&work)?;
        for (name, text) in FILES {
            fs::write(definition.join(name), text)?;
        }
        let digest = run_build(
            variant,
            &definition,
            &work,
            &partial.join("rootfs"),
            &mut progress,
        )?;
        fs::remove_dir_all(&definition)?;
        fs::remove_dir_all(&work)?;

        let image = RunnerImage {
            reference: variant.reference().to_owned(),
            digest,
            size_bytes: tree_size(&partial.join("rootfs"))?,
            key,
        };
        self.adopt_runner(variant, &partial, &image)?;
        progress(&format!("{} is ready ({})", image.reference, image.digest));
        Ok(image)
    }
}

fn run_build(
    variant: Variant,
    definition: &Path,
    work: &Path,
    rootfs: &Path,
    progress: &mut impl FnMut(&str),
) -> Result<String, BuildError> {
    let mut child = Command::new("bash")
        .arg(definition.join("build.sh"))
        .arg(variant.as_str())
        .arg(work)
        .arg(rootfs)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    // Both pipes are drained at once: a full stderr would stall the build.
    let stderr = child.stderr.take();
    let tail = std::thread::spawn(move || {
        let mut text = Vec::new();
        if let Some(mut stderr) = stderr {
            let _ = stderr.read_to_end(&mut text);
        }
        let text = String::from_utf8_lossy(&text).into_owned();
        let lines: Vec<&str> = text
            .lines()
            .filter(|line| !line.trim().is_empty())
            .collect();
        lines[lines.len().saturating_sub(5)..].join(" / ")
    });
    let (mut step, mut digest) = ("starting".to_owned(), None);
    if let Some(stdout) = child.stdout.take() {
        for line in BufReader::new(stdout).lines() {
            let line = line?;
            if let Some(text) = line.strip_prefix("step ") {
                progress(text);
                text.clone_into(&mut step);
            } else if let Some(found) = line.strip_prefix("digest ") {
                digest = Some(found.to_owned());
            }
        }
    }
    let status = child.wait()?;
    let tail = tail.join().unwrap_or_default();
    match digest {
        Some(digest) if status.success() => Ok(digest),
        _ => Err(BuildError::Step { step, tail }),
    }
}

/// Hash of everything an image is built from, but the packages of the day.
fn definition_key(variant: Variant) -> String {
    let mut hash = Sha256::new();
    hash.update(variant.as_str());
    for (name, text) in FILES {
        // The other variant's list is no part of this one.
        if !name.ends_with(".packages") || name.starts_with(variant.as_str()) {
            hash.update(name);
            hash.update([0]);
            hash.update(text);
            hash.update([0]);
        }
    }
    hex::encode(hash.finalize())
}

fn on_path(tool: &str) -> bool {
    std::env::var_os("PATH")
        .is_some_and(|path| std::env::split_paths(&path).any(|dir| dir.join(tool).is_file()))
}

fn remove_dir(path: &Path) -> std::io::Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn require_space(path: &Path, needed_mib: u64) -> Result<(), BuildError> {
    let stat = nix::sys::statvfs::statvfs(path).map_err(std::io::Error::from)?;
    let free_mib = stat.blocks_available() * stat.fragment_size() / (1024 * 1024);
    if free_mib < needed_mib {
        return Err(BuildError::NoSpace {
            path: path.display().to_string(),
            needed_mib,
            free_mib,
        });
    }
    Ok(())
}

fn tree_size(path: &Path) -> std::io::Result<u64> {
    let mut total = 0;
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        let kind = entry.metadata()?;
        total += if kind.is_dir() {
            tree_size(&entry.path())?
        } else {
            kind.len()
        };
    }
    Ok(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_name_their_variant() {
        for variant in Variant::ALL {
            assert_eq!(Variant::of_reference(variant.reference()), Some(variant));
        }
        assert_eq!(Variant::of_reference("debian:12"), None);
    }

    #[test]
    fn the_variants_have_keys_of_their_own() {
        assert_ne!(
            definition_key(Variant::Small),
            definition_key(Variant::Full)
        );
    }

    #[test]
    fn nothing_in_an_image_installs_updates_by_itself() {
        // It would hold apt's lock just when a script wants it.
        let updaters = [
            "apt-config-auto-update",
            "apticron",
            "cron",
            "cron-apt",
            "packagekit",
            "snapd",
            "systemd",
            "systemd-sysv",
            "unattended-upgrades",
            "update-manager-core",
        ];
        let mut lists = 0;
        for (name, text) in FILES {
            if !name.ends_with(".packages") {
                continue;
            }
            lists += 1;
            for package in text.lines().map(str::trim) {
                assert!(!updaters.contains(&package), "{name}: {package}");
            }
        }
        assert_eq!(lists, Variant::ALL.len());
    }

    #[test]
    fn an_unfinished_build_is_no_image() -> std::io::Result<()> {
        let dir = tempfile::tempdir()?;
        let store = ImageStore::new(dir.path());
        assert!(store.runner_images()?.is_empty());
        fs::create_dir_all(dir.path().join("runner/full.partial/rootfs"))?;
        assert!(store.runner_images()?.is_empty());
        assert_eq!(store.rootfs("groundwork/runner:full")?, None);
        Ok(())
    }
}
