//! Google's Gemini API.

pub(crate) mod error;
pub(crate) mod models;
pub(crate) mod request;
pub(crate) mod stream;

/// Returns the path relative to a base URL, which may or may not include the version.
pub(crate) fn path(base: &str, rest: &str) -> String {
    if base.ends_with("/v1beta") || base.ends_with("/v1") {
        rest.to_owned()
    } else {
        format!("/v1beta{rest}")
    }
}
