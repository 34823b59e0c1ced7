//! The likely cause of a failed run and its fix (spec 1-domain, *Hints*).
