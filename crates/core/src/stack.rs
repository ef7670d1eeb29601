//! One instance of everything.
