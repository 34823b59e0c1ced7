//! The addresses that stand for names.

use std::{
    collections::HashMap,
    net::{IpAddr, Ipv4Addr},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// The first address that stands for a name.
const FIRST: u32 = u32::from_be_bytes([198, 18, 1, 0]);
/// How many there are up to 198.19.255.255.
const ROOM: usize = (u32::from_be_bytes([198, 20, 0, 0]) - FIRST) as usize;

#[derive(Debug, Default)]
struct Book {
    by_name: HashMap<Arc<str>, u32>,
    names: Vec<Arc<str>>,
}

/// Names that were asked for, each with an address for the sandbox's life.
#[derive(Debug)]
pub(super) struct Names {
    book: Mutex<Book>,
    limit: usize,
}

impl Names {
    pub(super) fn new(limit: usize) -> Self {
        Self {
            book: Mutex::default(),
            limit: limit.min(ROOM),
        }
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        // Nothing in here panics half-way through a change.
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The address that stands for `name`; `None` when there are too many names.
    pub(super) fn address_of(&self, name: &str) -> Option<Ipv4Addr> {
        let mut book = self.book();
        if let Some(index) = book.by_name.get(name) {
            return Some(Ipv4Addr::from(FIRST + index));
        }
        if book.names.len() >= self.limit {
            return None;
        }
        let index = u32::try_from(book.names.len()).ok()?;
        let name: Arc<str> = name.into();
        book.names.push(name.clone());
        book.by_name.insert(name, index);
        Some(Ipv4Addr::from(FIRST + index))
    }

    /// The name that an address stands for.
    pub(super) fn name_of(&self, address: IpAddr) -> Option<Arc<str>> {
        let IpAddr::V4(address) = address else {
            return None;
        };
        let index = u32::from(address).checked_sub(FIRST)?;
        self.book().names.get(index as usize).cloned()
    }
}

/// Whether an address is one of those that could stand for a name, or our own.
pub(super) fn is_ours(address: IpAddr) -> bool {
    matches!(address, IpAddr::V4(v4) if v4.octets()[0] == 198 && v4.octets()[1] & 0xfe == 18)
        || address == IpAddr::V6(super::GATEWAY6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_has_one_address_until_there_are_too_many() {
        let names = Names::new(2);
        let a = names.address_of("a.example").unwrap();
        let b = names.address_of("b.example").unwrap();
        assert_eq!(a, Ipv4Addr::new(198, 18, 1, 0));
        assert_eq!(b, Ipv4Addr::new(198, 18, 1, 1));
        assert_eq!(names.address_of("a.example"), Some(a));
        assert_eq!(names.address_of("c.example"), None);
        assert_eq!(names.name_of(b.into()).as_deref(), Some("b.example"));
        for unknown in ["198.18.0.1", "198.18.1.2", "127.0.0.1", "::1"] {
            assert_eq!(names.name_of(unknown.parse().unwrap()), None, "{unknown}");
        }
    }

    #[test]
    fn there_is_never_an_address_outside_our_range() {
        let names = Names::new(usize::MAX);
        let mut last = None;
        for n in 0..ROOM {
            last = names.address_of(&format!("n{n}"));
        }
        assert_eq!(last, Some(Ipv4Addr::new(198, 19, 255, 255)));
        assert_eq!(names.address_of("one-more"), None);
    }
}
