//! Query strings as types: each parameter has a name, a type and a meaning, and is read and written by them.

use std::fmt;

/// A value that a query parameter can have.
pub trait QueryValue: Sized {
    /// The JSON Schema type: `integer`, `boolean` or `string`.
    const SCHEMA: &'static str;
    /// The form of a valid value, as an error message names it.
    const FORM: &'static str;

    /// Reads a value; `None` if the text has another form.
    fn parse(text: &str) -> Option<Self>;

    /// Writes the value as `parse` reads it.
    fn write(&self) -> String;
}

impl QueryValue for u64 {
    const SCHEMA: &'static str = "integer";
    const FORM: &'static str = "a whole number";

    fn parse(text: &str) -> Option<Self> {
        text.parse().ok()
    }

    fn write(&self) -> String {
        self.to_string()
    }
}

impl QueryValue for bool {
    const SCHEMA: &'static str = "boolean";
    const FORM: &'static str = "true or false";

    fn parse(text: &str) -> Option<Self> {
        match text {
            "true" | "1" => Some(true),
            "false" | "0" => Some(false),
            _ => None,
        }
    }

    fn write(&self) -> String {
        self.to_string()
    }
}

impl QueryValue for String {
    const SCHEMA: &'static str = "string";
    const FORM: &'static str = "text";

    fn parse(text: &str) -> Option<Self> {
        Some(text.to_owned())
    }

    fn write(&self) -> String {
        self.clone()
    }
}

/// One or more values with commas between them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CommaList<T>(pub Vec<T>);

impl<T: QueryValue> QueryValue for CommaList<T> {
    const SCHEMA: &'static str = T::SCHEMA;
    const FORM: &'static str = T::FORM;

    fn parse(text: &str) -> Option<Self> {
        text.split(',')
            .map(T::parse)
            .collect::<Option<_>>()
            .map(Self)
    }

    fn write(&self) -> String {
        let values: Vec<_> = self.0.iter().map(T::write).collect();
        values.join(",")
    }
}

/// A parameter that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidQuery {
    /// Name of the parameter.
    pub name: &'static str,
    /// The form that it must have.
    pub form: &'static str,
}

impl fmt::Display for InvalidQuery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} must be {}", self.name, self.form)
    }
}

impl std::error::Error for InvalidQuery {}

/// A parameter, as the API's description shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueryParameter {
    /// Name in the query string.
    pub name: &'static str,
    /// The JSON Schema type.
    pub schema: &'static str,
    /// Description of what the parameter selects.
    pub meaning: &'static str,
}

/// The parameters of an operation.
pub trait Query: Default {
    /// All parameters in the order of the documentation.
    const PARAMETERS: &'static [QueryParameter];

    /// Reads decoded pairs. The last value of a name applies; an empty one counts as absent, an unknown name is ignored.
    ///
    /// # Errors
    /// A value does not have the form of its parameter.
    fn read(pairs: &[(String, String)]) -> Result<Self, InvalidQuery>;

    /// Returns the parameters that are set, not yet percent-encoded.
    fn pairs(&self) -> Vec<(&'static str, String)>;
}

impl Query for () {
    const PARAMETERS: &'static [QueryParameter] = &[];

    fn read(_: &[(String, String)]) -> Result<Self, InvalidQuery> {
        Ok(())
    }

    fn pairs(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }
}

/// Reads one parameter.
pub(super) fn value<T: QueryValue>(
    pairs: &[(String, String)],
    name: &'static str,
) -> Result<Option<T>, InvalidQuery> {
    let mut values = pairs.iter().rev();
    let found = values.find(|(known, value)| known == name && !value.is_empty());
    let Some((_, text)) = found else {
        return Ok(None);
    };
    let form = T::FORM;
    T::parse(text).map(Some).ok_or(InvalidQuery { name, form })
}

/// Declares a struct per query string.
macro_rules! queries {
    ($($(#[$doc:meta])* $name:ident { $($field:ident: $ty:ty = $meaning:expr,)* })*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Default)]
        pub struct $name { $(#[doc = concat!("The parameter `", stringify!($field), "`.")] pub $field: Option<$ty>,)* }

        impl $crate::operations::query::Query for $name {
            const PARAMETERS: &'static [$crate::operations::query::QueryParameter] = &[$(
                $crate::operations::query::QueryParameter {
                    name: stringify!($field),
                    schema: <$ty as $crate::operations::query::QueryValue>::SCHEMA,
                    meaning: $meaning,
                },
            )*];

            fn read(pairs: &[(String, String)]) -> Result<Self, $crate::operations::query::InvalidQuery> {
                Ok(Self { $($field: $crate::operations::query::value(pairs, stringify!($field))?,)* })
            }

            fn pairs(&self) -> Vec<(&'static str, String)> {
                let mut pairs = Vec::new();
                $(if let Some(value) = &self.$field {
                    pairs.push((stringify!($field), $crate::operations::query::QueryValue::write(value)));
                })*
                pairs
            }
        }
    )*};
}

/// Makes an enum of words readable as a parameter.
macro_rules! query_words {
    ($ty:ty, $form:literal, $($word:literal => $variant:ident),*) => {
        impl $crate::operations::query::QueryValue for $ty {
            const SCHEMA: &'static str = "string";
            const FORM: &'static str = $form;

            fn parse(text: &str) -> Option<Self> {
                match text { $($word => Some(Self::$variant),)* _ => None }
            }

            fn write(&self) -> String {
                match self { $(Self::$variant => $word,)* }.to_owned()
            }
        }
    };
}

pub(super) use {queries, query_words};
