//! The command as a user meets it.

mod lab;
mod run;
mod support;
