//! How a reader likes logs, kept in the browser.

use leptos::prelude::window;

/// What stands beside a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Times {
    /// Nothing.
    Off,
    /// The time of day, in the reader's zone.
    #[default]
    Clock,
    /// The time since the run started.
    Since,
}

/// How a log looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Prefs {
    /// Long lines are broken.
    pub wrap: bool,
    /// Line numbers.
    pub numbers: bool,
    /// Times.
    pub times: Times,
}

impl Default for Prefs {
    fn default() -> Self {
        Self {
            wrap: false,
            numbers: true,
            times: Times::Clock,
        }
    }
}

/// Where they are kept.
const KEY: &str = "groundwork.log";

impl Prefs {
    /// As words.
    fn words(self) -> String {
        let times = match self.times {
            Times::Off => "off",
            Times::Clock => "clock",
            Times::Since => "since",
        };
        format!("{} {} {times}", self.wrap, self.numbers)
    }

    fn read(words: &str) -> Option<Self> {
        let mut words = words.split(' ');
        Some(Self {
            wrap: words.next()?.parse().ok()?,
            numbers: words.next()?.parse().ok()?,
            times: match words.next()? {
                "off" => Times::Off,
                "clock" => Times::Clock,
                "since" => Times::Since,
                _ => return None,
            },
        })
    }

    /// As kept; what is unknown or forbidden is the default.
    pub fn load() -> Self {
        window()
            .local_storage()
            .ok()
            .flatten()
            .and_then(|storage| storage.get_item(KEY).ok().flatten())
            .and_then(|words| Self::read(&words))
            .unwrap_or_default()
    }

    /// Keeps them, where the browser lets us.
    pub fn keep(self) {
        if let Ok(Some(storage)) = window().local_storage() {
            // A full or forbidden storage forgets, and that is all.
            let _ = storage.set_item(KEY, &self.words());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_read_again_and_nonsense_is_not() {
        for wrap in [true, false] {
            for times in [Times::Off, Times::Clock, Times::Since] {
                let prefs = Prefs {
                    wrap,
                    numbers: !wrap,
                    times,
                };
                assert_eq!(Prefs::read(&prefs.words()), Some(prefs));
            }
        }
        for words in ["", "true", "true true never", "1 0 off"] {
            assert_eq!(Prefs::read(words), None, "{words:?}");
        }
    }
}
