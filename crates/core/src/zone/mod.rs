//! Zones: the buddy allocator of one NUMA node, under one counted lock.
