//! What a sandbox needs of a runner image that was made elsewhere: looked for, and made where we can.

use std::{io, os::unix::fs::PermissionsExt};

use super::unpack::Unpacker;

/// The user that scripts and commands run as.
const USER: &str = "sandbox";
/// Its number, and its group's.
const ID: u32 = 1000;

/// Checks and completes an unpacked image; answers what was made, in sentences.
///
/// # Errors
/// What is missing and cannot be made, as the end of a sentence that begins with the image.
pub(super) fn prepare(image: &Unpacker) -> io::Result<Vec<String>> {
    for (program, places, why) in [
        (
            "bash",
            ["bin/bash", "usr/bin/bash"],
            "setup scripts are bash",
        ),
        (
            "sudo",
            ["usr/bin/sudo", "bin/sudo"],
            "the user sandbox installs packages with it",
        ),
    ] {
        let there = places.iter().any(|place| {
            let meta = image.file(place).and_then(|file| file.metadata());
            meta.is_ok_and(|meta| meta.permissions().mode() & 0o111 != 0)
        });
        if !there {
            return Err(io::Error::other(format!(
                "it has no {program} (/{}): {why}. Install the package {program} in it",
                places[0]
            )));
        }
    }
    let mut made = Vec::new();
    let passwd = image.text("etc/passwd")?;
    let ours = |line: &str| {
        let mut fields = line.split(':');
        fields.next() == Some(USER)
            && fields.nth(1) == Some("1000")
            && fields.next() == Some("1000")
            && fields.nth(1) == Some("/home/sandbox")
    };
    if !passwd.lines().any(ours) {
        let taken = replaced(
            image,
            "etc/passwd",
            0o644,
            "sandbox:x:1000:1000::/home/sandbox:/bin/bash",
        )?;
        replaced(image, "etc/group", 0o644, "sandbox:x:1000:")?;
        replaced(image, "etc/shadow", 0o640, "sandbox:!:20089:0:99999:7:::")?;
        made.push(match taken {
            Some(name) => format!("made the user sandbox (1000), which takes the place of {name}"),
            None => "made the user sandbox (1000)".to_owned(),
        });
    }
    image.put(
        "etc/sudoers.d/90-sandbox",
        "sandbox ALL=(ALL:ALL) NOPASSWD: ALL\n",
        0o440,
    )?;
    image.put_dir("home/sandbox", ID, 0o755)?;
    for dir in ["proc", "dev", "sys", "run", "tmp", "workspace"] {
        image.unlink(dir)?;
    }
    image.put_dir("workspace", ID, 0o755)?;
    for (dir, mode) in [
        ("tmp", 0o1777),
        ("var/tmp", 0o1777),
        ("proc", 0o555),
        ("dev", 0o755),
        ("sys", 0o555),
        ("run", 0o755),
        ("etc", 0o755),
    ] {
        image.put_dir(dir, 0, mode)?;
    }
    image.put("etc/machine-id", "", 0o444)?;
    Ok(made)
}

/// Adds a line for our user to one of the account files, and takes out what has its name or number; answers that name.
fn replaced(image: &Unpacker, path: &str, mode: u32, line: &str) -> io::Result<Option<String>> {
    let (mut text, mut taken) = (String::new(), None);
    for old in image.text(path)?.lines() {
        let mut fields = old.split(':');
        let name = fields.next().unwrap_or_default();
        let same_number = path != "etc/shadow" && fields.nth(1) == Some("1000");
        if name == USER || same_number {
            taken.get_or_insert_with(|| name.to_owned());
            continue;
        }
        text.push_str(old);
        text.push('\n');
    }
    text.push_str(line);
    text.push('\n');
    image.put(path, &text, mode)?;
    Ok(taken.filter(|name| name != USER))
}
