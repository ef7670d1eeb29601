//! kmem caches; one file per policy behind one trait.
