//! Requests in bytes.
