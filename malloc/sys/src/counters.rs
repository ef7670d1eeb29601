//! Structs of counters.

/// Implements `AddAssign` for a struct by adding each of its fields, all of which must be named.
#[macro_export]
macro_rules! add_fields {
    ($of:ty: $($field:ident),+) => {
        impl core::ops::AddAssign for $of {
            fn add_assign(&mut self, Self { $($field),+ }: Self) {
                $(self.$field += $field;)+
            }
        }
    };
}
pub use add_fields;
