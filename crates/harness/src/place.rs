//! Where programs are.

use std::path::PathBuf;

/// Looks for a program: the system's own first, because what the search path finds may be a script
/// that starts others; servers lie where users' search paths do not lead.
pub fn place_of(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::iter::once(PathBuf::from("/usr/bin"))
        .chain(std::env::split_paths(&path))
        .chain(["/usr/sbin", "/sbin"].map(PathBuf::from));
    folders.map(|folder| folder.join(program)).find(|file| file.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_there_is_found() {
        assert!(place_of("sh").is_some_and(|file| file.is_absolute()));
        assert_eq!(place_of("quarry-no-such-program"), None);
    }
}
