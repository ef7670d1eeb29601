//! Fields of fixed size, and sections that consist of fields, as words.

use crate::json::Kind;
use crate::name::{NAME_BYTES, Name};

/// A value with a fixed place among the bytes of a section.
pub(crate) trait Field: Sized {
    const BYTES: usize;
    const KIND: Kind;

    fn put(&self, out: &mut [u8]);

    /// Reads a value from the start of `bytes`, which are long enough; `None` if it is invalid.
    fn get(bytes: &[u8]) -> Option<Self>;
}

macro_rules! number {
    ($($number:ty: $kind:expr),*) => {$(
        impl Field for $number {
            const BYTES: usize = size_of::<Self>();
            const KIND: Kind = $kind;

            fn put(&self, out: &mut [u8]) {
                out[..Self::BYTES].copy_from_slice(&self.to_ne_bytes());
            }

            fn get(bytes: &[u8]) -> Option<Self> {
                Some(Self::from_ne_bytes(bytes.get(..Self::BYTES)?.try_into().ok()?))
            }
        }
    )*};
}

number!(u32: Kind::Short, u64: Kind::Long);

impl Field for Name {
    const BYTES: usize = NAME_BYTES;
    const KIND: Kind = Kind::Name;

    fn put(&self, out: &mut [u8]) {
        out[..NAME_BYTES].copy_from_slice(&self.bytes());
    }

    fn get(bytes: &[u8]) -> Option<Self> {
        Self::parse(bytes.get(..NAME_BYTES)?.try_into().ok()?)
    }
}

impl<T: Field + Copy + Default, const N: usize> Field for [T; N] {
    const BYTES: usize = N * T::BYTES;
    const KIND: Kind = Kind::Rows(T::BYTES / 4);

    fn put(&self, out: &mut [u8]) {
        for (element, place) in self.iter().zip(out.chunks_exact_mut(T::BYTES)) {
            element.put(place);
        }
    }

    fn get(bytes: &[u8]) -> Option<Self> {
        let mut all = [T::default(); N];
        for (element, place) in all.iter_mut().zip(bytes.get(..Self::BYTES)?.chunks(T::BYTES)) {
            *element = T::get(place)?;
        }
        Some(all)
    }
}

/// Declares a section: a struct without gaps between its fields.
macro_rules! section {
    ($(#[$doc:meta])* pub struct $section:ident {
        $($(#[$field_doc:meta])* pub $field:ident: $type:ty,)*
    }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[repr(C)]
        pub struct $section {
            $($(#[$field_doc])* pub $field: $type,)*
        }

        impl $section {
            /// Number of words in the section.
            pub const WORDS: usize = <Self as $crate::field::Field>::BYTES / 8;

            /// The words of the section, as they are in a record.
            #[must_use]
            pub fn to_words(&self) -> [u64; Self::WORDS] {
                let mut bytes = [0; <Self as $crate::field::Field>::BYTES];
                $crate::field::Field::put(self, &mut bytes);
                let mut words = [0; Self::WORDS];
                for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(8)) {
                    *word = u64::from_ne_bytes(bytes.try_into().unwrap_or_default());
                }
                words
            }
        }

        impl $crate::field::Field for $section {
            const BYTES: usize = 0 $(+ <$type as $crate::field::Field>::BYTES)*;
            const KIND: $crate::json::Kind = $crate::json::Kind::Rows(Self::BYTES / 4);

            fn put(&self, out: &mut [u8]) {
                let mut at = 0;
                $(
                    $crate::field::Field::put(&self.$field, &mut out[at..]);
                    at += <$type as $crate::field::Field>::BYTES;
                )*
                debug_assert_eq!(at, <Self as $crate::field::Field>::BYTES);
            }

            fn get(bytes: &[u8]) -> Option<Self> {
                let mut at = 0;
                let section = Self {
                    $($field: {
                        let field = <$type as $crate::field::Field>::get(bytes.get(at..)?)?;
                        at += <$type as $crate::field::Field>::BYTES;
                        field
                    },)*
                };
                (at == <Self as $crate::field::Field>::BYTES).then_some(section)
            }
        }

        impl $crate::json::Described for $section {
            const SHAPE: $crate::json::Shape = $crate::json::Shape {
                names: concat!($(stringify!($field), " "),*),
                fields: &[$((
                    <$type as $crate::field::Field>::KIND,
                    <$type as $crate::field::Field>::BYTES,
                ),)*],
            };
        }

        const _: () = assert!(<$section as $crate::field::Field>::BYTES.is_multiple_of(8));
        const _: () = assert!(
            <$section as $crate::field::Field>::BYTES == size_of::<$section>(),
            "fields lie in memory as they lie in a record"
        );
    };
}
pub(crate) use section;
