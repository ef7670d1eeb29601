//! The command as a user meets it.

mod advise;
mod cache_hit;
mod compare;
mod deciding;
mod fragmentation;
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
mod sharding;
mod support;
mod traces;
mod usage;
mod zone;
