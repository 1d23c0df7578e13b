//! Conversion between types of the library and of the wire.

/// Declares functions that convert an enum to another one with the same variants.
macro_rules! convert_variants {
    ($($(#[$doc:meta])* $vis:vis fn $name:ident($from:ty) -> $to:ty { $($variant:ident)* })*) => {$(
        $(#[$doc])*
        $vis fn $name(value: $from) -> $to {
            match value { $(<$from>::$variant => <$to>::$variant,)* }
        }
    )*};
}

/// Declares functions that convert a struct to another one with the same fields.
macro_rules! convert_fields {
    ($($vis:vis fn $name:ident($from:ty) -> $to:ident { $($field:ident)* })*) => {$(
        $vis fn $name(value: &$from) -> $to {
            $to { $($field: Clone::clone(&value.$field),)* }
        }
    )*};
}

pub(crate) use {convert_fields, convert_variants};
