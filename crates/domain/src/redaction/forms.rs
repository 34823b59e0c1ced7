//! The forms in which a secret's value is printed: as it is, line by line, URL-encoded, base64, as a JSON string.

use std::{collections::BTreeSet, fmt::Write as _};

use crate::limits::SECRET_MIN_CHARS;

/// Bytes that `base64` and `openssl base64` put on one line.
const BASE64_LINES: [usize; 2] = [57, 48];

const STANDARD: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const URL_SAFE: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// Every form of every secret, sorted, each once. What is shorter than a secret may be is left out: masking it would turn
/// the log into stars.
pub(super) fn of<'a>(secrets: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let mut forms = BTreeSet::new();
    for secret in secrets {
        let whole = secret.trim();
        add(&mut forms, json(secret));
        for alphabet in [STANDARD, URL_SAFE] {
            add_base64(&mut forms, secret.as_bytes(), alphabet);
        }
        let lines = secret
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty());
        for text in lines.chain([whole]) {
            for alphabet in [STANDARD, URL_SAFE] {
                add_base64(&mut forms, text.as_bytes(), alphabet);
            }
            for encoded in url_encoded(text) {
                add(&mut forms, encoded);
            }
            add(&mut forms, json(text));
            // A form that goes over lines can't be found in one.
            add(&mut forms, text.to_owned());
        }
    }
    forms.into_iter().collect()
}

fn add(forms: &mut BTreeSet<String>, form: String) {
    if form.chars().count() >= SECRET_MIN_CHARS && !form.contains(['\n', '\r']) {
        forms.insert(form);
    }
}

/// The inside of the value's JSON string.
fn json(text: &str) -> String {
    let quoted = serde_json::Value::from(text).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}

/// Percent-encoded as the common libraries do it: which marks they leave alone, and the case of the digits.
fn url_encoded(text: &str) -> Vec<String> {
    let mut all = Vec::new();
    for keep in ["", "/", "!'()*"] {
        for upper in [true, false] {
            let mut encoded = String::with_capacity(text.len() * 3);
            for byte in text.bytes() {
                let plain = byte.is_ascii_alphanumeric()
                    || b"-._~".contains(&byte)
                    || keep.as_bytes().contains(&byte);
                // Writing to a string never fails.
                let _ = match (plain, upper) {
                    (true, _) => write!(encoded, "{}", char::from(byte)),
                    (false, true) => write!(encoded, "%{byte:02X}"),
                    (false, false) => write!(encoded, "%{byte:02x}"),
                };
            }
            if text.contains(' ') {
                all.push(encoded.replace("%20", "+"));
            }
            all.push(encoded);
        }
    }
    all
}

/// Base64 wherever the value may begin in what is encoded, without the characters that depend on what is around it; and
/// line by line, as the usual tools break it.
fn add_base64(forms: &mut BTreeSet<String>, value: &[u8], alphabet: &[u8; 64]) {
    for before in 0..3 {
        let mut padded = vec![0; before];
        padded.extend_from_slice(value);
        let own = (before * 8).div_ceil(6)..padded.len() * 8 / 6;
        let encoded = base64(&padded, alphabet);
        if let Some(own) = encoded.get(own) {
            add(forms, own.to_owned());
        }
    }
    for width in BASE64_LINES {
        if value.len() > width {
            for chunk in value.chunks(width) {
                let encoded = base64(chunk, alphabet);
                // The last character may hold bits of what follows the value.
                let own = if chunk.len().is_multiple_of(3) {
                    encoded.len()
                } else {
                    encoded.len() - 1
                };
                add(forms, encoded[..own].to_owned());
            }
        }
    }
}

/// Base64 without padding.
fn base64(bytes: &[u8], alphabet: &[u8; 64]) -> String {
    let mut encoded = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let group = chunk
            .iter()
            .chain([0, 0].iter())
            .take(3)
            .fold(0_usize, |group, &byte| group << 8 | usize::from(byte));
        for index in 0..=chunk.len() {
            encoded.push(char::from(alphabet[group >> (18 - 6 * index) & 63]));
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_that_of_the_standard() {
        for (text, encoded) in [
            ("", ""),
            ("f", "Zg"),
            ("fo", "Zm8"),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg"),
            ("fooba", "Zm9vYmE"),
            ("foobar", "Zm9vYmFy"),
        ] {
            assert_eq!(base64(text.as_bytes(), STANDARD), encoded);
        }
        assert_eq!(base64(&[0xfb, 0xff], URL_SAFE), "-_8");
        assert_eq!(base64(&[0xfb, 0xff], STANDARD), "+/8");
    }
}
