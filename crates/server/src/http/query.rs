//! Decodes query strings.

use windlass_service::ApiError;

use crate::error::Result;

/// Splits a query string into decoded names and values.
pub(super) fn pairs(query: &str) -> Result<Vec<(String, String)>> {
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    pairs
        .map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            Some((decoded(name)?, decoded(value)?))
        })
        .collect::<Option<_>>()
        .ok_or_else(|| ApiError::query("the query is not percent-encoded UTF-8"))
}

/// Decodes percent-encoding; `None` if the encoding is invalid.
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
