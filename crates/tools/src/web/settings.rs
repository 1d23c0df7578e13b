//! Limits of the tool `web_fetch`.

use std::time::Duration;

/// Limits of the tool `web_fetch`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebSettings {
    /// Maximum time of a call, including all redirects and the whole body.
    pub timeout: Duration,
    /// Maximum number of bytes read of a body, and of bytes decompressed from it.
    pub max_body_bytes: usize,
    /// Default number of bytes of text for the model.
    pub text_bytes: usize,
    /// Maximum number of bytes of text that a model can request.
    pub max_text_bytes: usize,
    /// Maximum number of redirects.
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
