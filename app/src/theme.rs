//! The colour scheme: the system's, or the reader's choice, kept in a cookie so that the server's first paint is right.

use serde::{Deserialize, Serialize};

/// The cookie's name.
pub const COOKIE: &str = "theme";

/// The reader's choice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Theme {
    /// As the system has it.
    #[default]
    System,
    /// Light.
    Light,
    /// Dark.
    Dark,
}

impl Theme {
    /// From its word; anything unknown is the system's.
    pub fn parse(word: &str) -> Self {
        match word {
            "light" => Self::Light,
            "dark" => Self::Dark,
            _ => Self::System,
        }
    }

    /// Its word.
    pub const fn word(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::Light => "light",
            Self::Dark => "dark",
        }
    }

    /// The value of `data-theme` on the document; none for the system's.
    pub const fn attribute(self) -> Option<&'static str> {
        match self {
            Self::System => None,
            Self::Light => Some("light"),
            Self::Dark => Some("dark"),
        }
    }

    /// The choice in a `Cookie` header.
    pub fn from_cookies(header: &str) -> Self {
        header
            .split(';')
            .filter_map(|pair| pair.trim().split_once('='))
            .find(|(name, _)| *name == COOKIE)
            .map_or(Self::System, |(_, word)| Self::parse(word))
    }

    /// The `Set-Cookie` text, for a year. Not `HttpOnly`: the page sets it too, without asking the server.
    pub fn cookie(self) -> String {
        format!(
            "{COOKIE}={}; Path=/; Max-Age=31536000; SameSite=Lax",
            self.word()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_choice_is_read_back_from_the_cookie() {
        for (header, theme) in [
            ("theme=dark", Theme::Dark),
            ("session=x; theme=light", Theme::Light),
            ("mytheme=dark", Theme::System),
            ("theme=neon", Theme::System),
            ("", Theme::System),
        ] {
            assert_eq!(Theme::from_cookies(header), theme, "{header}");
        }
    }
}
