//! Reviewed starting points (spec 1-domain, *Templates*).
