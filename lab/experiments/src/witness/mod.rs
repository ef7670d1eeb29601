//! The running kernel under workloads of system calls, and its counts of them.
//!
//! ```text
//! tracepoints  counters of the kernel's tracepoints, and why the kernel refuses them
//! readings     /proc/vmstat and /proc/zoneinfo
//! knob         a setting that comes back, and a folder that goes, when their holder is gone
//! work         the workloads by name: faults, sockets and files do them
//! gate         threads that work in a window which another thread opens and closes
//! sample       one sample of a workload, in a process of its own
//! ```

mod faults;
mod files;
mod gate;
pub(crate) mod knob;
pub(crate) mod readings;
pub(crate) mod sample;
mod sockets;
pub(crate) mod tracepoints;
pub(crate) mod work;
