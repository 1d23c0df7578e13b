//! Conversion between enums of the library and of the wire.

/// Declares functions that convert an enum to another one with the same variants.
macro_rules! convert_variants {
    ($($(#[$doc:meta])* $vis:vis fn $name:ident($from:ty) -> $to:ty { $($variant:ident)* })*) => {$(
        $(#[$doc])*
        $vis fn $name(value: $from) -> $to {
            match value { $(<$from>::$variant => <$to>::$variant,)* }
        }
    )*};
}

pub(crate) use convert_variants;
