//! The memory mappings (mmap(2)) of a process: they tell which file the code at an address is from.

use std::path::PathBuf;

/// A mapping of a file as code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mapping {
    /// The first address.
    pub(crate) start: u64,
    /// The first address after the mapping.
    pub(crate) limit: u64,
    /// The mapping's offset in the file.
    pub(crate) offset: u64,
    /// The file, or the kernel's name for the mapping.
    pub(crate) path: PathBuf,
}

/// The mappings of code in `/proc/PID/maps`; malformed lines are left out.
pub(crate) fn parse(maps: &str) -> Vec<Mapping> {
    let line = |line: &str| {
        let mut fields = line.splitn(6, ' ');
        let (start, limit) = fields.next()?.split_once('-')?;
        let rights = fields.next()?;
        let offset = fields.next()?;
        let path = fields.nth(2)?.trim_start();
        let number = |text| u64::from_str_radix(text, 16).ok();
        let is_code = rights.contains('x') && !path.is_empty();
        let path = path.strip_suffix(" (deleted)").unwrap_or(path);
        is_code.then_some(Mapping {
            start: number(start)?,
            limit: number(limit)?,
            offset: number(offset)?,
            path: path.into(),
        })
    };
    maps.lines().filter_map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_is_found() {
        let maps = "\
55d0c0000000-55d0c0002000 r--p 00000000 fe:01 42                         /usr/bin/a b
55d0c0002000-55d0c0008000 r-xp 00002000 fe:01 42                         /usr/bin/a b
7f0000000000-7f0000001000 r-xp 00000000 00:00 0
7f0000002000-7f0000003000 r-xp 00001000 00:1f 7                          /lib/x.so (deleted)
rubbish
7fff00000000-7fff00002000 r-xp 00000000 00:00 0                          [vdso]
";
        let found = parse(maps);
        let paths: Vec<_> = found.iter().map(|mapping| mapping.path.to_str().unwrap()).collect();
        assert_eq!(paths, ["/usr/bin/a b", "/lib/x.so", "[vdso]"]);
        assert_eq!((found[0].start, found[0].limit), (0x55d0_c000_2000, 0x55d0_c000_8000));
        assert_eq!(found[0].offset, 0x2000);
    }
}
