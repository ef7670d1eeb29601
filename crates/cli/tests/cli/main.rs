//! The command as a user meets it.

mod compare;
mod lab;
mod run;
mod support;
