//! The command as a user meets it.

mod cache_hit;
mod compare;
mod lab;
mod libraries;
mod live;
mod obstacles;
mod peers;
mod programs;
mod real_programs;
mod replay;
mod report;
mod run;
mod support;
mod usage;
