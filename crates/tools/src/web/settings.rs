//! Limits of the tool `web_fetch`.

use std::time::Duration;

use windlass_macros::Defaults;

/// Limits of the tool `web_fetch`.
#[derive(Debug, Clone, PartialEq, Eq, Defaults)]
pub struct WebSettings {
    /// Maximum time of a call, including all redirects and the whole body.
    #[default(Duration::from_secs(30))]
    pub timeout: Duration,
    /// Maximum number of bytes read of a body, and of bytes decompressed from it.
    #[default(5 * 1024 * 1024)]
    pub max_body_bytes: usize,
    /// Default number of bytes of text for the model.
    #[default(48_000)]
    pub text_bytes: usize,
    /// Maximum number of bytes of text that a model can request.
    #[default(100_000)]
    pub max_text_bytes: usize,
    /// Maximum number of redirects.
    #[default(5)]
    pub max_redirects: usize,
}
