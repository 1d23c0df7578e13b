//! Setters of builders.

/// Declares chainable setters: each takes one value and changes the builder.
#[doc(hidden)]
#[macro_export]
macro_rules! setters {
    ($($(#[$doc:meta])* $name:ident($ty:ty) |$builder:ident, $value:ident| $change:expr;)*) => {$(
        $(#[$doc])*
        #[must_use]
        pub fn $name(self, value: $ty) -> Self {
            let mut changed = self;
            let ($builder, $value) = (&mut changed, value);
            $change;
            changed
        }
    )*};
}
