//! Reading queries, value by value.

use std::str::FromStr;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use chrono::{DateTime, Utc};

use windlass_service::ApiError;

use crate::error::{Refusal, Result};

/// The values of a query by name; the last of a name counts.
pub(crate) struct Query(Vec<(String, String)>);

impl<S: Sync> FromRequestParts<S> for Query {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Refusal> {
        let query = parts.uri.query().unwrap_or_default();
        let pairs = query.split('&').filter(|pair| !pair.is_empty());
        pairs
            .map(|pair| {
                let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
                Some((decoded(name)?, decoded(value)?))
            })
            .collect::<Option<_>>()
            .map(Self)
            .ok_or_else(|| ApiError::query("the query is not percent-encoded UTF-8").into())
    }
}

/// Undoes percent-encoding; `None` if the text is not encoded well.
pub(crate) fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let digits = [rest.next()?, rest.next()?];
                let digits = std::str::from_utf8(&digits).ok()?;
                u8::from_str_radix(digits, 16).ok()?
            }
            b'+' => b' ',
            byte => byte,
        });
    }
    String::from_utf8(bytes).ok()
}

/// What a query may hold.
pub(crate) trait Readable: FromStr {
    /// How it is written.
    const FORM: &'static str;
}

impl Readable for u64 {
    const FORM: &'static str = "a whole number";
}

impl Readable for usize {
    const FORM: &'static str = "a whole number";
}

impl Readable for DateTime<Utc> {
    const FORM: &'static str =
        "a time such as 2026-01-31T12:00:00Z (RFC 3339, with + written as %2B)";
}

impl Query {
    /// Returns a value as text; an empty one counts as none.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        let values = self.0.iter().rev();
        values
            .filter(|(known, value)| known == name && !value.is_empty())
            .map(|(_, value)| value.as_str())
            .next()
    }

    /// Reads a value of a type.
    pub(crate) fn get<T: Readable>(&self, name: &str) -> Result<Option<T>> {
        let Some(text) = self.text(name) else {
            return Ok(None);
        };
        let value = text.parse();
        value
            .map(Some)
            .map_err(|_| ApiError::query(format!("{name} must be {}", T::FORM)))
    }

    /// Reads a yes or no.
    pub(crate) fn flag(&self, name: &str) -> Result<bool> {
        match self.text(name) {
            None | Some("false" | "0") => Ok(false),
            Some("true" | "1") => Ok(true),
            Some(_) => Err(ApiError::query(format!("{name} must be true or false"))),
        }
    }
}
