//! The setup script: normalising, warnings, statements (spec 1-domain, *Script*).
