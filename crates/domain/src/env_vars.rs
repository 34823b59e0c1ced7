//! Names and limits of environment variables (spec 1-domain, *Environment variables*).
