//! Display texts of messages: the full text and a summary.

use std::borrow::Cow;

use crate::bounds::prefix_chars;
use crate::message::{ContentPart, ImageContentPart, Message, ToolResultContentPart};

/// Length limit of a summary, in characters.
pub const SUMMARY_CHARS: usize = 280;

/// Length limit of a displayed image URL, in characters.
const ADDRESS_CHARS: usize = 200;

/// Returns the parts of a message as one text, a line feed between them; calls are not part of it.
#[must_use]
pub fn plain_text(parts: &[ContentPart]) -> Cow<'_, str> {
    let mut texts = parts.iter().filter_map(part_text);
    match (texts.next(), texts.next()) {
        (None, _) => Cow::Borrowed(""),
        (Some(only), None) => only,
        (Some(first), Some(second)) => {
            let mut all = first.into_owned();
            for text in std::iter::once(second).chain(texts) {
                all.push('\n');
                all.push_str(&text);
            }
            all.into()
        }
    }
}

/// Returns the summary of an input: the caller's own, or else the beginning of the text.
#[must_use]
pub fn input_summary(message: &Message) -> String {
    let own_summary = message
        .turn_request()
        .and_then(|request| request.input_summary.as_deref());
    let text = own_summary.map_or_else(|| plain_text(&message.content), Cow::Borrowed);
    cut(text).into_owned()
}

pub(super) fn cut(text: Cow<'_, str>) -> Cow<'_, str> {
    match text {
        Cow::Borrowed(text) => prefix_chars(text, SUMMARY_CHARS).into(),
        Cow::Owned(text) => prefix_chars(&text, SUMMARY_CHARS).to_owned().into(),
    }
}

fn part_text(part: &ContentPart) -> Option<Cow<'_, str>> {
    match part {
        ContentPart::Text(part) => Some(Cow::Borrowed(part.text.as_str())),
        ContentPart::Image(image) => Some(image_text(image).into()),
        ContentPart::ImageFile(image) => {
            let name = image.filename.clone();
            let name = name.unwrap_or_else(|| image.image_id.to_string());
            Some(format!("[image] {name}").into())
        }
        ContentPart::ToolResult(result) => Some(result_text(result)),
        ContentPart::ToolCall(_) => None,
    }
}

/// An image with inline data is mentioned, not shown: its bytes are useless to a reader.
fn image_text(image: &ImageContentPart) -> String {
    let data = |media: &str| format!("[image] data:{media};base64,…");
    match &image.url {
        Some(url) if url.starts_with("data:") => {
            let media = url["data:".len()..].split([';', ',']).next();
            data(media.unwrap_or_default())
        }
        Some(url) => format!(
            "[image] {}",
            url.chars().take(ADDRESS_CHARS).collect::<String>()
        ),
        None => data(image.media_type.as_deref().unwrap_or_default()),
    }
}

fn result_text(part: &ToolResultContentPart) -> Cow<'_, str> {
    match (&part.error, &part.result) {
        (Some(error), _) => Cow::Borrowed(error),
        (None, Some(serde_json::Value::String(text))) => Cow::Borrowed(text),
        (None, Some(value)) => value.to_string().into(),
        (None, None) => Cow::Borrowed(""),
    }
}
