//! Memory from the operating system: the trait [`Os`] with the calls that the layers above need,
//! implemented by Linux and by a fake for tests.

mod fake;
mod linux;
mod system;

pub use crate::errno::{OsError, OsResult};
pub use fake::FakeOs;
pub use linux::Linux;
pub use system::{Guard, NotMoved, Os};
