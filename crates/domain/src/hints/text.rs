//! Places, durations and sizes in words.

/// `Line 7`, or `The script` where the line is not known.
pub(super) fn place(line: u32) -> String {
    if line == 0 {
        "The script".to_owned()
    } else {
        format!("Line {line}")
    }
}

/// A place in the middle of a sentence.
pub(super) fn in_sentence(place: &str) -> String {
    let mut chars = place.chars();
    chars
        .next()
        .map(|first| first.to_lowercase().chain(chars).collect())
        .unwrap_or_default()
}

/// `45 s`, `3 min 5 s`, `1 h 2 min`.
pub(super) fn duration(seconds: u64) -> String {
    let (h, m, s) = (seconds / 3_600, seconds / 60 % 60, seconds % 60);
    match (h, m, s) {
        (0, 0, s) => format!("{s} s"),
        (0, m, 0) => format!("{m} min"),
        (0, m, s) => format!("{m} min {s} s"),
        (h, 0, _) => format!("{h} h"),
        (h, m, _) => format!("{h} h {m} min"),
    }
}

/// `9.8 GiB`, `512 MiB`.
pub(super) fn size(bytes: u64) -> String {
    let mib = bytes / (1 << 20);
    if mib >= 1_024 {
        format!("{}.{} GiB", mib / 1_024, mib % 1_024 * 10 / 1_024)
    } else {
        format!("{mib} MiB")
    }
}
