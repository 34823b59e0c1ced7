//! What must never be stored or shown of a log (spec 1-domain, *Log*).
