//! Memory from the operating system: the trait [`Os`] with the calls that the layers above need,
//! implemented by Linux, by Linux with fewer system calls, and by a fake for tests.
//!
//! Order of the files, each using only those before it: `system`, `linux`, `confined`; `fake`.

mod confined;
mod fake;
mod linux;
mod system;

pub use crate::errno::{OsError, OsResult};
pub use confined::Confined;
pub use fake::FakeOs;
pub use linux::Linux;
pub use system::{NotMoved, Os};
