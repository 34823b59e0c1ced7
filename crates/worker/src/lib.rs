//! Claims runs and drives them.
