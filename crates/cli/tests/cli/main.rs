//! The command as a user meets it.

mod compare;
mod lab;
mod replay;
mod report;
mod run;
mod support;
