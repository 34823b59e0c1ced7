//! The last bytes of a terminal, by position since its beginning.

use std::collections::VecDeque;

/// Bytes from `start` on.
#[derive(Debug, Default)]
pub(super) struct Ring {
    start: u64,
    bytes: VecDeque<u8>,
}

impl Ring {
    /// The position after the last byte.
    pub(super) fn end(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }

    /// Adds bytes, and drops those before the last `keep`, but none from `wanted` on.
    pub(super) fn push(&mut self, bytes: &[u8], keep: usize, wanted: Option<u64>) {
        self.bytes.extend(bytes);
        let replay = self.end().saturating_sub(keep as u64);
        let from = wanted.map_or(replay, |wanted| wanted.min(replay));
        let drop = from.saturating_sub(self.start).min(self.bytes.len() as u64);
        self.bytes
            .drain(..usize::try_from(drop).unwrap_or(usize::MAX));
        self.start += drop;
    }

    /// Where a replay of the last `most` bytes begins: at a character, and at a line where something was cut off.
    pub(super) fn replay_from(&self, most: usize) -> u64 {
        let from = self.start.max(self.end().saturating_sub(most as u64));
        if from == 0 {
            return 0;
        }
        let skip = usize::try_from(from - self.start).unwrap_or(usize::MAX);
        let rest = || self.bytes.iter().skip(skip);
        let line = rest().take(4_096).position(|byte| *byte == b'\n');
        let into = line.map_or_else(
            || rest().take_while(|byte| **byte & 0xc0 == 0x80).count(),
            |line| line + 1,
        );
        from + into as u64
    }

    /// Up to `most` bytes from a position (or from the first one that is still there), and the position after them.
    pub(super) fn read(&self, from: u64, most: usize) -> (Vec<u8>, u64) {
        let from = from.max(self.start).min(self.end());
        let skip = usize::try_from(from - self.start).unwrap_or(usize::MAX);
        let bytes: Vec<u8> = self.bytes.iter().skip(skip).take(most).copied().collect();
        let next = from + bytes.len() as u64;
        (bytes, next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_bytes_stay_and_those_that_a_reader_waits_for() {
        let mut ring = Ring::default();
        ring.push(b"0123456789", 4, None);
        assert_eq!(ring.read(0, 99), (b"6789".to_vec(), 10));
        ring.push(b"abcdef", 4, Some(8));
        assert_eq!(ring.read(8, 3), (b"89a".to_vec(), 11));
        assert_eq!(ring.read(16, 9), (Vec::new(), 16));
        ring.push(b"", 4, None);
        assert_eq!(ring.read(8, 99), (b"cdef".to_vec(), 16));
    }

    #[test]
    fn a_replay_begins_at_a_line_or_at_least_at_a_character() {
        let mut ring = Ring::default();
        ring.push(b"one\ntwo\n", 99, None);
        assert_eq!(ring.replay_from(99), 0, "nothing was cut off");
        assert_eq!(ring.replay_from(6), 4);
        let mut ring = Ring::default();
        ring.push("aéé".as_bytes(), 99, None);
        assert_eq!(ring.replay_from(3), 3);
    }
}
