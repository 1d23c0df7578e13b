//! The contents of a file.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use windlass_core::error::{AgentLoopError, Result};
use windlass_core::session_file::SessionFile;

/// How content is spelled towards the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Encoding {
    Text,
    Base64,
}

impl Encoding {
    pub(crate) fn parse(encoding: &str, path: &str) -> Result<Self> {
        match encoding {
            "text" => Ok(Self::Text),
            "base64" => Ok(Self::Base64),
            other => Err(AgentLoopError::tool(format!(
                "unknown encoding `{}`, use `text` or `base64`: {path}",
                other.chars().take(40).collect::<String>()
            ))),
        }
    }

    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Base64 => "base64",
        }
    }
}

/// The bytes of a file and their encoding: text if they are UTF-8.
///
/// This stores the decoded bytes, not the base64 text, because sizes, comparisons and searches refer to the bytes. The accepted base64 is canonical
/// and padded, so encoding the bytes again yields the same text.
#[derive(Debug, Clone)]
pub(crate) struct Content {
    body: Body,
    encoding: Encoding,
    searchable: bool,
}

#[derive(Debug, Clone)]
enum Body {
    Utf8(Box<str>),
    Bytes(Box<[u8]>),
}

impl Content {
    /// Parses content from a caller.
    pub(crate) fn parse(content: &str, encoding: &str, path: &str) -> Result<Self> {
        match Encoding::parse(encoding, path)? {
            Encoding::Text => Ok(Self::utf8(content.into(), Encoding::Text)),
            Encoding::Base64 => {
                let bytes = STANDARD.decode(content).map_err(|error| {
                    AgentLoopError::tool(format!("invalid base64 content ({error}): {path}"))
                })?;
                Ok(Self::new(bytes, Encoding::Base64))
            }
        }
    }

    /// Wraps the bytes of a file; as text if they are UTF-8.
    #[cfg(feature = "real-disk")]
    pub(crate) fn from_bytes(bytes: Vec<u8>) -> Self {
        if SessionFile::is_text_content(&bytes) {
            Self::new(bytes, Encoding::Text)
        } else {
            Self::new(bytes, Encoding::Base64)
        }
    }

    /// Wraps bytes with their original encoding, which is base64 unless they are UTF-8.
    pub(crate) fn new(bytes: Vec<u8>, encoding: Encoding) -> Self {
        match String::from_utf8(bytes) {
            Ok(text) => Self::utf8(text.into(), encoding),
            Err(error) => Self {
                body: Body::Bytes(error.into_bytes().into()),
                encoding: Encoding::Base64,
                searchable: false,
            },
        }
    }

    fn utf8(text: Box<str>, encoding: Encoding) -> Self {
        Self {
            searchable: SessionFile::is_text_content(text.as_bytes()),
            body: Body::Utf8(text),
            encoding,
        }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        match &self.body {
            Body::Utf8(text) => text.as_bytes(),
            Body::Bytes(bytes) => bytes,
        }
    }

    pub(crate) fn len(&self) -> u64 {
        self.bytes().len() as u64
    }

    pub(crate) const fn encoding(&self) -> Encoding {
        self.encoding
    }

    /// Returns the content in its encoding.
    pub(crate) fn encoded(&self) -> String {
        match (&self.body, self.encoding) {
            (Body::Utf8(text), Encoding::Text) => text.to_string(),
            _ => STANDARD.encode(self.bytes()),
        }
    }

    /// Returns the text to search; `None` for binary content.
    pub(crate) fn text(&self) -> Option<&str> {
        match &self.body {
            Body::Utf8(text) if self.searchable => Some(text),
            _ => None,
        }
    }
}
