//! The command as a user meets it.

mod advise;
mod aged;
mod compare;
mod deciding;
mod fields;
mod libraries;
mod live;
mod obstacles;
mod pages;
mod run;
mod servers;
mod support;
mod time;
mod usage;
