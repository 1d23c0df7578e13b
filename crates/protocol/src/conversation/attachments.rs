//! Parts of an input in addition to its prompt: further text, images and files.

use serde::{Deserialize, Serialize};

/// One part of an input, after its prompt. Parts reach the model in their order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum InputPart {
    /// Text that the model reads after the prompt.
    Text {
        /// Plain text, UTF-8.
        text: String,
    },
    /// A PNG, JPEG, GIF or WebP image of at most 5 MiB: either `data` or `path`.
    Image {
        /// The image in base64.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        data: Option<String>,
        /// A file in the turn's environment, relative to its working directory.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        path: Option<String>,
        /// Media type; detected from the image if absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        media_type: Option<String>,
    },
    /// A text file of at most 1 MiB: either `text` or `path`.
    File {
        /// The text of the file.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        text: Option<String>,
        /// A file in the turn's environment, relative to its working directory.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        path: Option<String>,
        /// The name that the model reads; default `path`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
    },
}
