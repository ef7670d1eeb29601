//! The command as a user meets it.

mod advise;
mod compare;
mod deciding;
mod libraries;
mod live;
mod obstacles;
mod pages;
mod run;
mod support;
mod usage;
