//! Memory from the operating system: the calls that the layers above need ([`Os`]), as Linux, as
//! Linux with fewer calls, and as a fake for tests.
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
