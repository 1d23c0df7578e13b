//! Parts of an input in addition to its prompt: further text, images and files.

use windlass_macros::wire;

/// One part of an input, after its prompt. Parts reach the model in their order.
#[wire(Eq, omit_none)]
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
        data: Option<String>,
        /// A file in the turn's environment, relative to its working directory.
        path: Option<String>,
        /// Media type; detected from the image if absent.
        media_type: Option<String>,
    },
    /// A text file of at most 1 MiB: either `text` or `path`.
    File {
        /// The text of the file.
        text: Option<String>,
        /// A file in the turn's environment, relative to its working directory.
        path: Option<String>,
        /// The name that the model reads; default `path`.
        name: Option<String>,
    },
}
