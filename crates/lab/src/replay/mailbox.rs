//! Hands whole bursts from a sender to a receiver: the receive queue of a socket between two
//! processes that the scheduler runs in turn.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Room for one burst. The sender waits until the receiver has taken the one before.
pub(crate) struct Mailbox<T> {
    inside: Mutex<Inside<T>>,
    changed: Condvar,
}

struct Inside<T> {
    burst: Option<Vec<T>>,
    /// An emptied vector on its way back, so that no burst allocates.
    spare: Option<Vec<T>>,
    closed: bool,
}

impl<T> Mailbox<T> {
    /// An empty one.
    pub(crate) fn new() -> Self {
        let inside = Inside { burst: None, spare: None, closed: false };
        Self { inside: Mutex::new(inside), changed: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, Inside<T>> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hands over a burst, and waits until the receiver is done with it. Returns an empty vector.
    pub(crate) fn send(&self, burst: Vec<T>) -> Vec<T> {
        let mut inside = self.lock();
        inside.burst = Some(burst);
        self.changed.notify_one();
        let done = |inside: &mut Inside<T>| inside.spare.is_none();
        let waited = self.changed.wait_while(inside, done);
        waited.unwrap_or_else(PoisonError::into_inner).spare.take().unwrap_or_default()
    }

    /// No burst will follow.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.changed.notify_one();
    }

    /// Passes each item of the next burst to `take`; `false` where there is none and none will be.
    pub(crate) fn receive(&self, take: impl FnMut(T)) -> bool {
        let empty = |inside: &mut Inside<T>| inside.burst.is_none() && !inside.closed;
        let waited = self.changed.wait_while(self.lock(), empty);
        let burst = waited.unwrap_or_else(PoisonError::into_inner).burst.take();
        let Some(mut burst) = burst else { return false };
        burst.drain(..).for_each(take);
        self.lock().spare = Some(burst);
        self.changed.notify_one();
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    #[test]
    fn bursts_arrive_in_order_and_whole() {
        let mailbox = Mailbox::new();
        let received = thread::scope(|scope| {
            let receiver = scope.spawn(|| {
                let mut bursts = Vec::new();
                let mut burst = Vec::new();
                while mailbox.receive(|item: u32| burst.push(item)) {
                    bursts.push(std::mem::take(&mut burst));
                }
                bursts
            });
            let mut burst = Vec::new();
            for first in 0..100 {
                burst.extend([first, first + 1, first + 2]);
                burst = mailbox.send(burst);
                assert!(burst.is_empty());
            }
            mailbox.close();
            receiver.join().unwrap()
        });
        assert_eq!(received.len(), 100);
        assert!(received.iter().zip(0..).all(|(burst, n)| *burst == [n, n + 1, n + 2]));
    }
}
