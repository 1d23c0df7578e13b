//! Converts a server's answer to a tool result, within limits.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rmcp::model::{CallToolResult, ContentBlock, ResourceContents};
use serde_json::{Value, json};
use windlass_core::bounds::{is_shallow, json_bytes, lines, one_line, prefix};
use windlass_core::tools::{ToolExecutionResult, ToolResultImage};

/// Maximum size of an answer's text in bytes.
const MAX_TEXT: usize = 1024 * 1024;
/// Maximum size of an image in base64 characters.
const MAX_IMAGE: usize = 5 * 1024 * 1024 * 4 / 3 + 4;
/// Maximum number of images in an answer.
const MAX_IMAGES: usize = 8;
/// Maximum number of base64 characters shown of content that is neither text nor an image.
const MAX_BLOB: usize = 64 * 1024;
/// The image types that models accept.
const IMAGES: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];

#[derive(Default)]
struct ToolAnswer {
    text: String,
    images: Vec<ToolResultImage>,
    is_cut: bool,
}

/// Converts the server's answer to the result of the call.
pub(super) fn tool_result(result: CallToolResult) -> ToolExecutionResult {
    let mut answer = ToolAnswer::default();
    for block in result.content {
        answer.take(block);
    }
    // Servers repeat the structured content as text for clients without support for structures.
    if let Some(value) = result.structured_content
        && answer.text.is_empty()
        && !value.is_null()
    {
        answer.push_structure(&value);
    }
    let ToolAnswer {
        mut text,
        images,
        is_cut,
    } = answer;
    if is_cut {
        text.push_str("\n[the rest is left out: the answer is too long]");
    }
    if result.is_error == Some(true) {
        return ToolExecutionResult::tool_error(if text.is_empty() {
            "the tool failed without a reason".to_owned()
        } else {
            text
        });
    }
    match images[..] {
        [] => ToolExecutionResult::success(json!(text)),
        _ => ToolExecutionResult::success_with_images(json!(text), images),
    }
}

impl ToolAnswer {
    fn take(&mut self, block: ContentBlock) {
        match block {
            ContentBlock::Text(part) => self.push_text(&lines(&part.text)),
            ContentBlock::Image(part) => self.push_image(part.data, &part.mime_type),
            ContentBlock::Audio(part) => {
                let (kind, bytes) = (one_line(&part.mime_type), part.data.len());
                self.push_text(&format!(
                    "[sound of type {kind}, {bytes} bytes as base64, not shown]"
                ));
            }
            ContentBlock::ResourceLink(link) => {
                let (name, uri) = (one_line(&link.name), one_line(&link.uri));
                self.push_text(&format!("[resource {name}: {uri}]"));
            }
            ContentBlock::Resource(part) => self.resource(part.resource),
            _ => self.push_text("[content of an unknown type, not shown]"),
        }
    }

    fn resource(&mut self, resource: ResourceContents) {
        match resource {
            ResourceContents::TextResourceContents { uri, text, .. } => {
                self.push_text(&format!("[resource {}]\n{}", one_line(&uri), lines(&text)));
            }
            ResourceContents::BlobResourceContents {
                uri,
                mime_type,
                blob,
                ..
            } => {
                let kind = mime_type.unwrap_or_default();
                let uri = one_line(&uri);
                if IMAGES.contains(&kind.as_str()) {
                    self.push_text(&format!("[resource {uri}]"));
                    return self.push_image(blob, &kind);
                }
                let kind = one_line(&kind);
                if blob.len() <= MAX_BLOB && STANDARD.decode(&blob).is_ok() {
                    self.push_text(&format!(
                        "[resource {uri} of type {kind}, as base64]\n{blob}"
                    ))
                } else {
                    self.push_text(&format!(
                        "[resource {uri} of type {kind}, {} bytes as base64, not shown]",
                        blob.len()
                    ))
                }
            }
            _ => self.push_text("[a resource of an unknown type, not shown]"),
        }
    }

    fn push_image(&mut self, base64: String, kind: &str) {
        let why = if !IMAGES.contains(&kind) {
            "models do not support its type"
        } else if self.images.len() >= MAX_IMAGES {
            "there are too many"
        } else if base64.len() > MAX_IMAGE {
            "it is too large"
        } else if STANDARD.decode(&base64).is_err() {
            "it is not base64"
        } else {
            let media_type = kind.to_owned();
            return self.images.push(ToolResultImage { base64, media_type });
        };
        self.push_text(&format!(
            "[an image of type {} is left out: {why}]",
            one_line(kind)
        ));
    }

    fn push_structure(&mut self, value: &Value) {
        if is_shallow(value) && json_bytes(value) <= MAX_TEXT {
            self.push_text(&lines(&value.to_string()))
        } else {
            self.push_text("[a structure is left out: it is too large]")
        }
    }

    fn push_text(&mut self, text: &str) {
        if self.is_cut {
            return;
        }
        if !self.text.is_empty() {
            self.text.push('\n');
        }
        let shown = prefix(text, MAX_TEXT.saturating_sub(self.text.len()));
        self.text.push_str(shown);
        self.is_cut = shown.len() < text.len();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(result: Value) -> ToolExecutionResult {
        tool_result(serde_json::from_value(result).unwrap())
    }

    fn text_of(result: ToolExecutionResult) -> String {
        match result {
            ToolExecutionResult::Success(value)
            | ToolExecutionResult::SuccessWithImages { result: value, .. } => {
                value.as_str().unwrap().to_owned()
            }
            ToolExecutionResult::ToolError(text) => text,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn text_is_joined_escaped_and_truncated() {
        let text = text_of(answer(json!({"content": [
            {"type": "text", "text": "a\u{1b}[2J"},
            {"type": "text", "text": "b"}
        ]})));
        assert!(!text.contains('\u{1b}') && text.ends_with("\nb"), "{text}");
        let text = text_of(answer(
            json!({"content": [{"type": "text", "text": "ä".repeat(MAX_TEXT)}]}),
        ));
        assert!(text.len() < MAX_TEXT + 100 && text.contains("left out"));
    }

    #[test]
    fn images_are_returned_and_unusable_ones_are_reported() {
        let image =
            |data: &str, kind: &str| json!({"type": "image", "data": data, "mimeType": kind});
        let shown = answer(json!({"content": [
            image("aGk=", "image/png"), image("?", "image/png"), image("aGk=", "image/svg+xml"),
            image(&"A".repeat(MAX_IMAGE + 4), "image/png")
        ]}));
        let ToolExecutionResult::SuccessWithImages { images, result } = shown else {
            panic!("{shown:?}")
        };
        assert_eq!(images.len(), 1);
        let text = result.as_str().unwrap();
        assert!(
            text.contains("not base64") && text.contains("its type") && text.contains("too large")
        );
    }

    #[test]
    fn resources_and_failures_become_text() {
        let text = text_of(answer(json!({"isError": true, "content": [
            {"type": "resource", "resource": {"uri": "file:///a", "text": "hello"}},
            {"type": "resource", "resource": {"uri": "file:///b", "blob": "A".repeat(MAX_BLOB + 4)}},
            {"type": "resource_link", "uri": "file:///c", "name": "c"}
        ]})));
        assert!(
            text.contains("hello") && text.contains("not shown") && text.contains("file:///c"),
            "{text}"
        );
        let text = text_of(answer(
            json!({"content": [], "structuredContent": {"a": 1}}),
        ));
        assert_eq!(text, r#"{"a":1}"#);
    }
}
