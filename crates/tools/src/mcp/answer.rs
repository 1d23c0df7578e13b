//! Converts a server's answer to a tool result, within limits.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rmcp::model::{CallToolResult, ContentBlock, ResourceContents};
use serde_json::{Value, json};
use windlass_core::bounds::{is_shallow, json_bytes, lines, one_line};
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
struct Answer {
    text: String,
    images: Vec<ToolResultImage>,
    is_cut: bool,
}

/// Converts the server's answer to the result of the call.
pub(super) fn of(result: CallToolResult) -> ToolExecutionResult {
    let mut answer = Answer::default();
    for block in result.content {
        answer.take(block);
    }
    // Servers repeat the structured content as text for clients that do not read structures.
    let structure = result
        .structured_content
        .filter(|value| answer.text.is_empty() && !value.is_null());
    if let Some(structure) = structure {
        answer.structure(&structure);
    }
    let Answer {
        mut text,
        images,
        is_cut,
    } = answer;
    if is_cut {
        text.push_str("\n[the rest is left out: the answer is too long]");
    }
    if result.is_error == Some(true) {
        return ToolExecutionResult::tool_error(if text.is_empty() {
            "the tool failed and did not say why".to_owned()
        } else {
            text
        });
    }
    let value = json!(text);
    if images.is_empty() {
        ToolExecutionResult::success(value)
    } else {
        ToolExecutionResult::success_with_images(value, images)
    }
}

impl Answer {
    fn take(&mut self, block: ContentBlock) {
        match block {
            ContentBlock::Text(part) => self.say(&lines(&part.text)),
            ContentBlock::Image(part) => self.show(part.data, &part.mime_type),
            ContentBlock::Audio(part) => {
                let (kind, bytes) = (one_line(&part.mime_type), part.data.len());
                self.say(&format!(
                    "[sound of type {kind}, {bytes} bytes as base64, not shown]"
                ));
            }
            ContentBlock::ResourceLink(link) => {
                let (name, uri) = (one_line(&link.name), one_line(&link.uri));
                self.say(&format!("[resource {name}: {uri}]"));
            }
            ContentBlock::Resource(part) => self.resource(part.resource),
            _ => self.say("[something that this client does not know, not shown]"),
        }
    }

    fn resource(&mut self, resource: ResourceContents) {
        match resource {
            ResourceContents::TextResourceContents { uri, text, .. } => {
                self.say(&format!("[resource {}]\n{}", one_line(&uri), lines(&text)));
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
                    self.say(&format!("[resource {uri}]"));
                    return self.show(blob, &kind);
                }
                let kind = one_line(&kind);
                if blob.len() <= MAX_BLOB && STANDARD.decode(&blob).is_ok() {
                    self.say(&format!(
                        "[resource {uri} of type {kind}, as base64]\n{blob}"
                    ))
                } else {
                    self.say(&format!(
                        "[resource {uri} of type {kind}, {} bytes as base64, not shown]",
                        blob.len()
                    ))
                }
            }
            _ => self.say("[a resource that this client does not know, not shown]"),
        }
    }

    fn show(&mut self, base64: String, kind: &str) {
        let why = match () {
            () if !IMAGES.contains(&kind) => "no model reads its type",
            () if self.images.len() >= MAX_IMAGES => "there are too many",
            () if base64.len() > MAX_IMAGE => "it is too large",
            () if STANDARD.decode(&base64).is_err() => "it is no base64",
            () => {
                let media_type = kind.to_owned();
                return self.images.push(ToolResultImage { base64, media_type });
            }
        };
        self.say(&format!(
            "[an image of type {} is left out: {why}]",
            one_line(kind)
        ));
    }

    fn structure(&mut self, value: &Value) {
        if is_shallow(value) && json_bytes(value) <= MAX_TEXT {
            self.say(&lines(&value.to_string()))
        } else {
            self.say("[a structure is left out: it is too large]")
        }
    }

    fn say(&mut self, text: &str) {
        if self.is_cut {
            return;
        }
        if !self.text.is_empty() {
            self.text.push('\n');
        }
        let mut room = MAX_TEXT.saturating_sub(self.text.len()).min(text.len());
        while !text.is_char_boundary(room) {
            room -= 1;
        }
        self.text.push_str(&text[..room]);
        self.is_cut = room < text.len();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(result: Value) -> ToolExecutionResult {
        of(serde_json::from_value(result).unwrap())
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
    fn text_is_joined_cleaned_and_cut() {
        let said = text_of(answer(json!({"content": [
            {"type": "text", "text": "a\u{1b}[2J"},
            {"type": "text", "text": "b"}
        ]})));
        assert!(!said.contains('\u{1b}') && said.ends_with("\nb"), "{said}");
        let said = text_of(answer(
            json!({"content": [{"type": "text", "text": "ä".repeat(MAX_TEXT)}]}),
        ));
        assert!(said.len() < MAX_TEXT + 100 && said.contains("left out"));
    }

    #[test]
    fn images_are_kept_and_what_is_none_is_told() {
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
        let said = result.as_str().unwrap();
        assert!(
            said.contains("no base64") && said.contains("its type") && said.contains("too large")
        );
    }

    #[test]
    fn resources_and_failures_become_text() {
        let said = text_of(answer(json!({"isError": true, "content": [
            {"type": "resource", "resource": {"uri": "file:///a", "text": "hello"}},
            {"type": "resource", "resource": {"uri": "file:///b", "blob": "A".repeat(MAX_BLOB + 4)}},
            {"type": "resource_link", "uri": "file:///c", "name": "c"}
        ]})));
        assert!(
            said.contains("hello") && said.contains("not shown") && said.contains("file:///c"),
            "{said}"
        );
        let said = text_of(answer(
            json!({"content": [], "structuredContent": {"a": 1}}),
        ));
        assert_eq!(said, r#"{"a":1}"#);
    }
}
