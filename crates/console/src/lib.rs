//! The web console: assets by name, the page that loads them, and the headers that confine it. This crate knows no transport.
//!
//! Every page URL gets the same shell, which contains no data. The browser's modules read the Runtime API.

#![warn(missing_docs)]

mod assets;
mod escape;
mod headers;
mod pages;

use std::borrow::Cow;

pub use assets::Assets;
pub use escape::escape;
pub use headers::{CONTENT_SECURITY_POLICY, SECURITY_HEADERS};

/// The path below which the console is mounted.
pub const ROOT: &str = "/console";

/// A response to a GET request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The HTTP status.
    pub status: u16,
    /// Media type of the body.
    pub content_type: &'static str,
    /// Value of the header `Cache-Control`.
    pub cache_control: &'static str,
    /// Content in the media type.
    pub body: Cow<'static, [u8]>,
}

impl Answer {
    fn page(status: u16, html: String) -> Self {
        Self {
            status,
            content_type: "text/html; charset=utf-8",
            cache_control: "no-store",
            body: html.into_bytes().into(),
        }
    }
}

/// The console with its assets.
#[derive(Debug, Clone, Default)]
pub struct Console {
    assets: Assets,
}

impl Console {
    /// Uses other assets than those of the build.
    #[must_use]
    pub fn with_assets(assets: Assets) -> Self {
        Self { assets }
    }

    /// Answers a GET request; `path` is the path after [`ROOT`], not decoded.
    #[must_use]
    pub fn answer(&self, path: &str) -> Answer {
        match path.strip_prefix("/assets/") {
            Some(name) => self.assets.answer(name),
            None => Answer::page(200, pages::shell(&self.assets.base())),
        }
    }

    /// Answers every page request while a login is refused, because the connection could be read by others.
    #[must_use]
    pub fn insecure_connection(&self, host: &str) -> Answer {
        Answer::page(403, pages::insecure_connection(host))
    }
}
