//! How durations, sizes and times read. Pure; the browser adds only its time zone.

use domain::timestamp::Timestamp;

/// `0:41`, `12:03`, `1:02:03`.
pub fn clock(milliseconds: i64) -> String {
    let seconds = milliseconds.max(0) / 1_000;
    let (hours, minutes, seconds) = (seconds / 3_600, seconds / 60 % 60, seconds % 60);
    if hours > 0 {
        format!("{hours}:{minutes:02}:{seconds:02}")
    } else {
        format!("{minutes}:{seconds:02}")
    }
}

/// `350 ms`, `4.2 s`, `1 min 14 s`, `2 h 5 min`.
pub fn duration(milliseconds: i64) -> String {
    let ms = milliseconds.max(0);
    match ms {
        0..1_000 => format!("{ms} ms"),
        // Tenths, cut rather than rounded, so that 59.99 s never reads as 60.0 s.
        1_000..10_000 => format!("{}.{} s", ms / 1_000, ms / 100 % 10),
        10_000..60_000 => format!("{} s", ms / 1_000),
        60_000..3_600_000 => pair(ms / 60_000, "min", ms / 1_000 % 60, "s"),
        3_600_000..86_400_000 => pair(ms / 3_600_000, "h", ms / 60_000 % 60, "min"),
        _ => pair(ms / 86_400_000, "d", ms / 3_600_000 % 24, "h"),
    }
}

fn pair(large: i64, large_unit: &str, small: i64, small_unit: &str) -> String {
    if small == 0 {
        format!("{large} {large_unit}")
    } else {
        format!("{large} {large_unit} {small} {small_unit}")
    }
}

/// `just now`, `2 s ago`, `5 min ago`, `3 h ago`, `2 d ago`; nothing from thirty days on, where the date says more.
pub fn relative(at: Timestamp, now: Timestamp) -> Option<String> {
    let seconds = now.millis_since(at) / 1_000;
    Some(match seconds {
        0..5 => "just now".to_owned(),
        5..60 => format!("{seconds} s ago"),
        60..3_600 => format!("{} min ago", seconds / 60),
        3_600..86_400 => format!("{} h ago", seconds / 3_600),
        86_400..2_592_000 => format!("{} d ago", seconds / 86_400),
        _ => return None,
    })
}

/// `2026-07-01`.
pub fn date_utc(at: Timestamp) -> String {
    at.to_string().chars().take(10).collect()
}

/// `in 6 d`, or `over`.
pub fn until(at: Timestamp, now: Timestamp) -> String {
    let seconds = at.millis_since(now) / 1_000;
    match seconds {
        0 => "over".to_owned(),
        1..3_600 => format!("in {} min", (seconds / 60).max(1)),
        3_600..86_400 => format!("in {} h", seconds / 3_600),
        _ => format!("in {} d", seconds / 86_400),
    }
}

/// `412 B`, `3.1 KiB`, `4 MiB`.
pub fn bytes(count: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if count < 1_024 {
        return format!("{count} B");
    }
    let mut tenths = count.saturating_mul(10) / 1_024;
    let mut unit = 0;
    while tenths >= 10_240 && unit + 1 < UNITS.len() {
        tenths /= 1_024;
        unit += 1;
    }
    if tenths.is_multiple_of(10) || tenths >= 1_000 {
        format!("{} {}", tenths / 10, UNITS[unit])
    } else {
        format!("{}.{} {}", tenths / 10, tenths % 10, UNITS[unit])
    }
}

/// `1 line`, `1,234 lines`.
pub fn count(number: u64, one: &str, many: &str) -> String {
    format!(
        "{} {}",
        grouped(number),
        if number == 1 { one } else { many }
    )
}

/// `1,234,567`.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// `2026-09-17 12:04:11 UTC`: exact, for a reader whose zone is not known.
pub fn exact_utc(at: Timestamp) -> String {
    let text = at.to_string();
    match (text.get(0..10), text.get(11..19)) {
        (Some(date), Some(time)) => format!("{date} {time} UTC"),
        _ => text,
    }
}

/// `12:04:11`, in UTC.
pub fn time_utc(at: Timestamp) -> String {
    at.to_string().get(11..19).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks() {
        for (ms, text) in [
            (0, "0:00"),
            (41_900, "0:41"),
            (723_000, "12:03"),
            (3_723_000, "1:02:03"),
            (-5, "0:00"),
        ] {
            assert_eq!(clock(ms), text);
        }
    }

    #[test]
    fn durations() {
        for (ms, text) in [
            (0, "0 ms"),
            (999, "999 ms"),
            (4_290, "4.2 s"),
            (59_999, "59 s"),
            (74_210, "1 min 14 s"),
            (60_000, "1 min"),
            (7_500_000, "2 h 5 min"),
            (90_000_000, "1 d 1 h"),
        ] {
            assert_eq!(duration(ms), text);
        }
    }

    #[test]
    fn relative_times() {
        let now = Timestamp::from_micros(1_789_646_651_000_000);
        for (seconds, text) in [
            (0, "just now"),
            (-30, "just now"),
            (12, "12 s ago"),
            (300, "5 min ago"),
            (7_300, "2 h ago"),
            (200_000, "2 d ago"),
        ] {
            assert_eq!(
                relative(now.plus_seconds(-seconds), now).as_deref(),
                Some(text)
            );
        }
        let old = now.plus_seconds(-40 * 86_400);
        assert_eq!(relative(old, now), None);
        assert_eq!(date_utc(old), "2026-08-08");
        assert_eq!(until(now.plus_seconds(7 * 86_400), now), "in 7 d");
        assert_eq!(until(now.plus_seconds(-1), now), "over");
    }

    #[test]
    fn sizes_and_counts() {
        for (count, text) in [
            (412, "412 B"),
            (1_024, "1 KiB"),
            (3_180, "3.1 KiB"),
            (4_194_304, "4 MiB"),
            (1_610_612_736, "1.5 GiB"),
            (204_800, "200 KiB"),
        ] {
            assert_eq!(bytes(count), text);
        }
        assert_eq!(count(1, "line", "lines"), "1 line");
        assert_eq!(count(100_000, "line", "lines"), "100,000 lines");
        assert_eq!(grouped(1_234_567), "1,234,567");
    }

    #[test]
    fn exact_times() {
        let at = Timestamp::from_micros(1_789_646_651_250_000);
        assert_eq!(exact_utc(at), "2026-09-17 12:04:11 UTC");
        assert_eq!(time_utc(at), "12:04:11");
    }
}
