//! Who has which object: the oracle of the models.

use quarry_sys::percpu::Object;
use std::collections::BTreeSet;
use std::sync::Mutex;

/// Objects in the hands of threads. The mutex is std's: looking is no step of the model.
#[derive(Default)]
pub(crate) struct Hands(Mutex<BTreeSet<usize>>);

impl Hands {
    /// Someone was given an object.
    pub(crate) fn take(&self, object: Object) {
        let is_new = self.0.lock().unwrap().insert(object.as_ptr() as usize);
        assert!(is_new, "{object:p} was handed out twice");
    }

    /// Someone is about to give one back.
    pub(crate) fn give(&self, object: Object) {
        let was_held = self.0.lock().unwrap().remove(&(object.as_ptr() as usize));
        assert!(was_held, "{object:p} came from nobody's hands");
    }

    /// Objects in anybody's hands.
    pub(crate) fn count(&self) -> usize {
        self.0.lock().unwrap().len()
    }
}
