//! Numbers as the form shows and reads them.

/// Thousandths of a core as vCPU: `2000` is `2`, `250` is `0.25`.
pub fn milli_as_cpus(milli: u32) -> String {
    decimal(f64::from(milli) / 1_000.0)
}

/// MiB as GiB: `4096` is `4`, `1536` is `1.5`.
pub fn mib_as_gib(mib: u32) -> String {
    decimal(f64::from(mib) / 1_024.0)
}

/// vCPU as thousandths of a core.
///
/// # Errors
/// A sentence for the field.
pub fn to_milli(text: &str) -> Result<u32, String> {
    scaled(text, 1_000.0)
}

/// GiB as MiB.
///
/// # Errors
/// A sentence for the field.
pub fn gib_to_mib(text: &str) -> Result<u32, String> {
    scaled(text, 1_024.0)
}

fn scaled(text: &str, factor: f64) -> Result<u32, String> {
    let number: f64 = text
        .trim()
        .replace(',', ".")
        .parse()
        .map_err(|_| "Write a number, such as 2 or 0.5.".to_owned())?;
    let scaled = (number * factor).round();
    if scaled.is_finite() && (0.0..=4_000_000_000.0).contains(&scaled) {
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "the range was just checked"
        )]
        Ok(scaled as u32)
    } else {
        Err("Write a number, such as 2 or 0.5.".to_owned())
    }
}

fn decimal(number: f64) -> String {
    // f64's Display is the shortest text that reads back as the same number.
    number.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_read_back_as_they_were_shown() {
        for mib in [1_024, 1_500, 2_048, 4_096, 102_400, 1] {
            assert_eq!(gib_to_mib(&mib_as_gib(mib)), Ok(mib));
        }
        for milli in [250, 1_000, 1_333, 24_000, 1] {
            assert_eq!(to_milli(&milli_as_cpus(milli)), Ok(milli));
        }
        assert_eq!(milli_as_cpus(2_500), "2.5");
        assert_eq!(to_milli("0,5"), Ok(500));
        for wrong in ["", "two", "-1", "NaN", "inf", "1e30"] {
            assert!(to_milli(wrong).is_err(), "{wrong}");
        }
    }
}
