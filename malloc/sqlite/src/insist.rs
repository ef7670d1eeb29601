//! Repeats requests of SQLite that have found no memory.
//!
//! Such a request has tried to reclaim pages, but only within bounds. A longer scan might have
//! freed a page, or other threads may have locked the pages that could be freed. SQLite reports the
//! failure as an error of its user's statement, so several attempts are worth their time.

/// Attempts per request: if every page is in use, they take 3 ms besides waits for other threads.
const LOOKS: u32 = 16;

/// Makes a request until it is served; `None` after [`LOOKS`] refusals.
#[inline]
pub(crate) fn insist<T>(mut request: impl FnMut() -> Option<T>) -> Option<T> {
    request().or_else(|| again(request))
}

#[cold]
#[inline(never)]
fn again<T>(mut request: impl FnMut() -> Option<T>) -> Option<T> {
    (1..LOOKS).find_map(|_| {
        // The thread that frees pages, or holds their locks, may need this CPU.
        std::thread::yield_now();
        request()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_made_until_it_is_served() {
        let mut made = 0;
        let mut served_after = |refusals: u32| {
            made = 0;
            insist(|| {
                made += 1;
                (made > refusals).then_some(made)
            })
        };
        assert_eq!(served_after(0), Some(1));
        assert_eq!(served_after(5), Some(6));
        assert_eq!(served_after(u32::MAX), None);
        assert_eq!(made, LOOKS);
    }
}
