//! The oracle of the models: the objects that threads have.

use quarry_sys::percpu::Object;
use std::collections::BTreeSet;
use std::sync::Mutex;

/// The objects that threads have. The mutex is std's, so that its use is no step of the model.
#[derive(Default)]
pub(crate) struct Hands(Mutex<BTreeSet<usize>>);

impl Hands {
    /// Notes that a thread was given an object.
    pub(crate) fn take(&self, object: Object) {
        let is_new = self.0.lock().unwrap().insert(object.as_ptr() as usize);
        assert!(is_new, "{object:p} was handed out twice");
    }

    /// Notes that a thread is about to give an object back.
    pub(crate) fn give(&self, object: Object) {
        let was_held = self.0.lock().unwrap().remove(&(object.as_ptr() as usize));
        assert!(was_held, "{object:p} came from nobody's hands");
    }

    /// Number of objects that threads have.
    pub(crate) fn count(&self) -> usize {
        self.0.lock().unwrap().len()
    }
}
