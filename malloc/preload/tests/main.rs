//! Tests of the shared object from outside: C and C++ programs, and real programs, run with
//! `libquarry.so` preloaded.
//!
//! * `QUARRY_LIBRARY=FILE` tests that shared object instead of building one.
//! * `TEST_PEER=1` drops the demand that Quarry served the program, so that the programs can be
//!   tested with another allocator (`QUARRY_LIBRARY=FILE`) or plain glibc (no library). The modules
//!   `misuse`, `environment`, `programs`, `sequences`, `shared_object`, `start` and `fast_path`
//!   need Quarry and fail then.
//! * `TEST_CC="COMPILER OPTION.."` compiles C programs; `scripts/musl.sh` names musl's.
//! * `TEST_PATIENCE=N` lets programs run N times as long before they count as hanging.
//! * `TEST_STEP=N` lets tests of single failures test only every N-th request or limit.
//! * `QUARRY_WRITE_HEADER=1` lets the module `header` write `include/quarry.h` anew.
//! * `QUARRY_SOAK_SECONDS=N` lets the stress test run for N seconds with new seeds.

mod abi;
mod budget;
mod caches;
mod contained;
mod cxx;
mod deepbind;
mod environment;
#[cfg(target_arch = "x86_64")]
mod fast_path;
mod foreign;
#[cfg(target_arch = "x86_64")]
mod frames;
mod groups;
mod header;
mod heaps;
mod hostile;
mod life;
mod limits;
mod memory;
mod migration;
mod misuse;
mod modes;
mod page_cache;
mod pressure;
mod probes;
mod profile;
mod programs;
mod record;
mod registration;
mod sandbox;
#[cfg(target_arch = "x86_64")]
mod sequences;
mod shared_object;
mod space;
mod stack;
mod start;
mod statistics;
mod stepped;
mod stress;
mod support;
mod surroundings;
