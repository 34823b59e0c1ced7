//! Masking what must never be stored, shown or sent anywhere (spec 1-domain, *Log*): the values of secret variables in
//! every form they are printed in, user information in URLs, private keys, and the shapes of well-known tokens. Runs in
//! the worker, before a line leaves it.

use std::{borrow::Cow, sync::Arc};

use aho_corasick::{AhoCorasick, MatchKind};

use crate::setup_run::Stream;

mod forms;
mod keys;
mod shapes;

/// What stands in the place of whatever was masked.
pub const MASK: &str = "***";

/// The value of a secret variable. It can't be printed, compared or serialised by accident.
pub struct Secret(String);

impl Secret {
    /// Takes a value in.
    pub const fn new(value: String) -> Self {
        Self(value)
    }
    /// The value, for handing to a process or a cipher, and for nothing else.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

/// Masks single lines. Immutable, so that one serves every stream of a run; [`LineRedactor`] follows what goes over lines.
pub struct Redactor {
    literals: Literals,
    /// Every form of every secret, sorted.
    forms: Vec<String>,
    longest: usize,
}

enum Literals {
    /// No secret is known.
    None,
    Automaton(AhoCorasick),
    /// There are secrets and they cannot be searched for: nothing may be shown.
    Broken,
}

impl Redactor {
    /// A redactor that knows these values.
    pub fn new<'a>(secrets: impl IntoIterator<Item = &'a str>) -> Self {
        let forms = forms::of(secrets);
        let longest = forms.iter().map(String::len).max().unwrap_or(0);
        let literals = if forms.is_empty() {
            Literals::None
        } else {
            AhoCorasick::builder()
                .match_kind(MatchKind::LeftmostLongest)
                .build(&forms)
                .map_or(Literals::Broken, Literals::Automaton)
        };
        Self {
            literals,
            forms,
            longest,
        }
    }

    /// The line with everything masked that can be recognised within it.
    pub fn redact<'a>(&self, line: &'a str) -> Cow<'a, str> {
        let mut inside_key = None;
        self.redact_after(line, &mut inside_key)
    }

    /// As [`Self::redact`], where a private key may be open from the lines before.
    fn redact_after<'a>(&self, line: &'a str, inside_key: &mut keys::State) -> Cow<'a, str> {
        let line = keys::mask(line, inside_key);
        let line = match &self.literals {
            Literals::None => line,
            Literals::Broken => Cow::Borrowed(MASK),
            Literals::Automaton(automaton) => mask_literals(automaton, line),
        };
        shapes::mask(line)
    }

    /// Bytes of the longest text that is masked as a whole because it is a secret's.
    pub const fn longest(&self) -> usize {
        self.longest
    }

    /// Bytes of an open line that have to wait for what follows, at most: the longest secret less one.
    pub const fn hold_back(&self) -> usize {
        self.longest.saturating_sub(1)
    }

    /// How many bytes of an unfinished line can be shown while it goes on: no part of a secret or token is among them that
    /// would be masked in the whole line. At a character's boundary. 0 where the whole line has to wait.
    pub fn safe_len(&self, text: &str) -> usize {
        self.safe_before(text, shapes::open_at(text))
    }

    /// How many bytes of an unfinished line can be parted from the rest for good, each part being masked by itself. As
    /// [`Self::safe_len`], but also the first letter of a token's prefix waits for the second: that alone says nothing when
    /// it is shown, yet without it the rest would not be recognised.
    pub fn cut_len(&self, text: &str) -> usize {
        self.safe_before(text, shapes::open_strictly_at(text))
    }

    fn safe_before(&self, text: &str, open_shape: Option<usize>) -> usize {
        let open_shape = open_shape.unwrap_or(text.len());
        let open_form = self.open_form_at(text).unwrap_or(text.len());
        let mut safe = open_shape.min(open_form);
        // A place inside something masked moves to its beginning; that may lie inside another.
        loop {
            let before = safe;
            if let Literals::Automaton(automaton) = &self.literals {
                safe = automaton
                    .find_iter(text)
                    .find(|found| found.start() < safe && safe < found.end())
                    .map_or(safe, |found| found.start());
            }
            safe = shapes::start_of_match_across(text, safe).unwrap_or(safe);
            if safe == before {
                return safe;
            }
        }
    }

    /// Where the text's end may be the beginning of a secret's form.
    fn open_form_at(&self, text: &str) -> Option<usize> {
        let from = text.ceil_char_boundary(text.len().saturating_sub(self.hold_back()));
        text[from..]
            .char_indices()
            .map(|(offset, _)| from + offset)
            .find(|&at| {
                let tail = &text[at..];
                let next = self.forms.partition_point(|form| form.as_str() < tail);
                self.forms
                    .get(next)
                    .is_some_and(|form| form.starts_with(tail))
            })
    }
}

fn mask_literals<'a>(automaton: &AhoCorasick, line: Cow<'a, str>) -> Cow<'a, str> {
    let mut masked = String::new();
    let mut from = 0;
    for found in automaton.find_iter(line.as_ref()) {
        masked.push_str(&line[from..found.start()]);
        // Parts of one value that stand side by side are one mask: their number says something too.
        if !(masked.ends_with(MASK) && from == found.start() && from > 0) {
            masked.push_str(MASK);
        }
        from = found.end();
    }
    if from == 0 {
        return line;
    }
    masked.push_str(&line[from..]);
    Cow::Owned(masked)
}

/// Masks the lines of a run in their order, following private keys over many lines, each stream by itself.
pub struct LineRedactor {
    redactor: Arc<Redactor>,
    inside_key: [keys::State; Stream::ALL.len()],
}

impl LineRedactor {
    /// For the lines of one run.
    pub const fn new(redactor: Arc<Redactor>) -> Self {
        Self {
            redactor,
            inside_key: [None; Stream::ALL.len()],
        }
    }

    /// A whole line of a stream, or a piece of one that is too long, masked.
    pub fn line<'a>(&mut self, stream: Stream, text: &'a str) -> Cow<'a, str> {
        let state = &mut self.inside_key[stream as usize];
        self.redactor.redact_after(text, state)
    }

    /// What [`Self::line`] would say, without counting as a line: for one that may still grow.
    pub fn peek<'a>(&self, stream: Stream, text: &'a str) -> Cow<'a, str> {
        let mut state = self.inside_key[stream as usize];
        self.redactor.redact_after(text, &mut state)
    }

    /// See [`Redactor::safe_len`].
    pub fn safe_len(&self, text: &str) -> usize {
        self.redactor.safe_len(text)
    }

    /// See [`Redactor::cut_len`].
    pub fn cut_len(&self, text: &str) -> usize {
        self.redactor.cut_len(text)
    }

    /// See [`Redactor::longest`].
    pub fn longest(&self) -> usize {
        self.redactor.longest()
    }
}
