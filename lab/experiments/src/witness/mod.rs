//! The running kernel under workloads of system calls, and the kernel's counts of them.
//!
//! ```text
//! tracepoints  counters of the kernel's tracepoints, and why the kernel refuses them
//! readings     /proc/vmstat, /proc/zoneinfo and /proc/slabinfo
//! knob         settings that are restored, and folders that are removed, when their holder ends
//! work         the workloads by name: faults, sockets and files do them
//! gate         threads that work in a window which another thread opens and closes
//! sample       one sample of a workload, in a process of its own
//! guest        a kernel in an emulated machine that takes such samples
//! ```

mod faults;
mod files;
mod gate;
pub(crate) mod guest;
pub(crate) mod knob;
pub(crate) mod readings;
pub(crate) mod sample;
mod sockets;
pub(crate) mod tracepoints;
pub(crate) mod work;
