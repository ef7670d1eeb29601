//! Workloads of the documents as sequences of kernel allocations, on stacks with chosen policies.

pub(crate) mod mailbox;
pub(crate) mod memory;
pub(crate) mod stack;
pub(crate) mod udp;
