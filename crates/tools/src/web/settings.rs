//! How much a page may have, and how long it may take.

use std::time::Duration;

/// How much a page may have, and how long it may take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebSettings {
    /// How long a call may take with all redirects and the whole body.
    pub timeout: Duration,
    /// How many bytes of a body are read, and how many are unpacked of a compressed one.
    pub max_body_bytes: usize,
    /// How many bytes of text the model gets unless it asks for another number.
    pub text_bytes: usize,
    /// How many bytes of text it may ask for.
    pub max_text_bytes: usize,
    /// How many redirects are followed.
    pub max_redirects: usize,
}

impl Default for WebSettings {
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(30),
            max_body_bytes: 5 * 1024 * 1024,
            text_bytes: 48_000,
            max_text_bytes: 100_000,
            max_redirects: 5,
        }
    }
}
