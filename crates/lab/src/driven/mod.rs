//! Programs that a script drives: servers with their databases, and whatever takes more than one
//! command.
//!
//! ```text
//! script  what a script says of itself, and how it is run
//! stage   one program, prepared: its folder, a first run on glibc, its samples
//! ```
//!
//! A script is `NAME.sh VERB FOLDER SIZE`, where SIZE is `full` or `quick`:
//!
//! ```text
//! about    says on lines `KEY: VALUE` what it is ([`Script`]); where the program is absent it
//!          fails, and its last line on standard error says what to install
//! prepare  puts into FOLDER what no sample is to pay for
//! run      does the work in FOLDER, checks it, prints the same every time, and leaves no process
//! ```

mod script;
mod stage;

pub(crate) use script::Script;
pub(crate) use stage::Stage;
