//! Pages that the server writes.

use crate::escape::escape;

/// The page of every URL: it loads the style sheet and the first module from `base`.
pub(crate) fn shell(base: &str) -> String {
    include_str!("shell.html").replace("{base}", &escape(base))
}

/// Explains why there is no console at this address.
pub(crate) fn insecure_connection(host: &str) -> String {
    include_str!("insecure.html").replace("{host}", &escape(host))
}
