//! Programs that are built with this one and started by it.

use anyhow::{Context, Result, bail};
use std::env;
use std::path::PathBuf;

/// Finds one: the file that `variable` names, or the one beside this executable.
///
/// # Errors
/// It is not there: how to build it.
pub(crate) fn find(name: &str, variable: &str) -> Result<PathBuf> {
    let beside = || Some(env::current_exe().ok()?.with_file_name(name));
    let named = env::var_os(variable).map(PathBuf::from);
    let file = named.or_else(beside).context("cannot find this executable")?;
    if !file.is_file() {
        let file = file.display();
        bail!("{file} is not there: `make build` builds it, or {variable} names it");
    }
    Ok(file)
}
