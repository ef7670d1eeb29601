//! The memory mappings (mmap(2)) of a process: they tell which file the code at an address is from.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

/// Maximum number of mappings that are kept: four times those of code and data that a process may
/// have by default (Linux 6.18, `vm.max_map_count`).
const MOST: usize = 1 << 18;

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

/// The mappings of code in `/proc/PID/maps`, by address; malformed lines are left out. A path may
/// have any bytes; the kernel writes a new line in it as `\012`.
pub(crate) fn parse(maps: &[u8]) -> Vec<Mapping> {
    let line = |line: &[u8]| {
        let mut fields = line.splitn(6, |byte| *byte == b' ');
        let mut text = || std::str::from_utf8(fields.next()?).ok();
        let (range, rights, offset, _device, _inode) =
            (text()?, text()?, text()?, text()?, text()?);
        let (start, limit) = range.split_once('-')?;
        let path = fields.next()?.trim_ascii_start();
        let number = |text| u64::from_str_radix(text, 16).ok();
        let is_code = rights.contains('x') && !path.is_empty();
        let path = path.strip_suffix(b" (deleted)").unwrap_or(path);
        let path = replaced(path, b"\\012", b'\n');
        is_code.then_some(Mapping {
            start: number(start)?,
            limit: number(limit)?,
            offset: number(offset)?,
            path: OsString::from_vec(path).into(),
        })
    };
    let mut mappings: Vec<_> =
        maps.split(|byte| *byte == b'\n').filter_map(line).take(MOST).collect();
    mappings.sort_by_key(|mapping| mapping.start);
    mappings
}

fn replaced(mut text: &[u8], old: &[u8], new: u8) -> Vec<u8> {
    let mut whole = Vec::with_capacity(text.len());
    while let Some((first, rest)) = text.split_first() {
        let is_here = text.starts_with(old);
        whole.push(if is_here { new } else { *first });
        text = if is_here { &text[old.len()..] } else { rest };
    }
    whole
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStrExt;

    #[test]
    fn code_is_found() {
        let maps = b"\
55d0c0000000-55d0c0002000 r--p 00000000 fe:01 42                         /usr/bin/a b
55d0c0002000-55d0c0008000 r-xp 00002000 fe:01 42                         /usr/bin/a b
7f0000000000-7f0000001000 r-xp 00000000 00:00 0
7f0000002000-7f0000003000 r-xp 00001000 00:1f 7                          /lib/x.so (deleted)
7f0000004000-7f0000005000 r-xp 00000000 00:1f 8                          /gr\xf6\xdfe\\012x
rubbish
7fff00000000-7fff00002000 r-xp 00000000 00:00 0                          [vdso]
";
        let found = parse(maps);
        let paths: Vec<_> =
            found.iter().map(|mapping| mapping.path.as_os_str().as_bytes()).collect();
        let expected = [&b"/usr/bin/a b"[..], b"/lib/x.so", b"/gr\xf6\xdfe\nx", b"[vdso]"];
        assert_eq!(paths, expected);
        assert_eq!((found[0].start, found[0].limit), (0x55d0_c000_2000, 0x55d0_c000_8000));
        assert_eq!(found[0].offset, 0x2000);
    }
}
