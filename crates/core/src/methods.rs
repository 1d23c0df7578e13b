//! Methods of one shape: setters of builders, and the constant methods of capabilities.

/// Declares chainable setters: each takes one value and changes the builder.
#[doc(hidden)]
#[macro_export]
macro_rules! setters {
    ($($(#[$doc:meta])* $name:ident($ty:ty) |$builder:ident, $value:ident| $change:expr;)*) => {$(
        $(#[$doc])*
        #[must_use = "a setter returns the changed value"]
        pub fn $name(self, value: $ty) -> Self {
            let mut changed = self;
            let ($builder, $value) = (&mut changed, value);
            $change;
            changed
        }
    )*};
}

/// Implements the constant methods of a [`Capability`](crate::Capability): id, name, description and, if it has one, category.
#[doc(hidden)]
#[macro_export]
macro_rules! described {
    ($id:expr, $name:expr, $description:expr $(, $category:expr)? $(,)?) => {
        fn id(&self) -> &str {
            $id
        }
        fn name(&self) -> &str {
            $name
        }
        fn description(&self) -> &str {
            $description
        }
        $(fn category(&self) -> Option<&str> {
            Some($category)
        })?
    };
}

/// Implements the constant methods of a capability whose tools depend only on its configuration.
#[doc(hidden)]
#[macro_export]
macro_rules! constants {
    ($($text:expr),+ $(,)?) => {
        $crate::described!($($text),+);
        fn tools_revision(&self) -> Option<u64> {
            Some(0)
        }
    };
}
