//! Nothing: this package exists for the sources of its dependencies.
