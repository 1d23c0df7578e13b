//! Text, images and files that are attached to a prompt.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use windlass_core::message::{ContentPart, ImageContentPart};
use windlass_core::thread_record::ThreadRecord;
use windlass_core::turn_environment::TurnEnvironment;
use windlass_policy::ApprovalAction;
use windlass_protocol::{ErrorCode, InputPart};
use windlass_tools::ResolvedWorkspace;

use crate::error::{ApiError, Result};
use crate::service::Service;

/// The tool whose approval rules apply to paths.
const READ: &str = "read";
const MAX_PARTS: usize = 32;
const MAX_IMAGE_BYTES: usize = 5 * 1024 * 1024;
const MAX_FILE_BYTES: usize = 1024 * 1024;
/// Maximum size of all parts of one input together.
const MAX_TOTAL_BYTES: usize = 16 * 1024 * 1024;
const MAX_NAME_BYTES: usize = 256;

impl Service {
    /// Returns the content of an input: its prompt, then its parts. Reading files is subject to the rules of the turn's environment.
    pub(crate) async fn content(
        &self,
        thread: &ThreadRecord,
        environment_id: Option<&str>,
        prompt: String,
        parts: Option<Vec<InputPart>>,
    ) -> Result<Vec<ContentPart>> {
        let mut content = vec![ContentPart::text(prompt)];
        let parts = parts.unwrap_or_default();
        if parts.is_empty() {
            return Ok(content);
        }
        if parts.len() > MAX_PARTS {
            let text = format!("an input has at most {MAX_PARTS} parts");
            return Err(ApiError::field("/input", text));
        }
        self.check_rules(&parts)?;
        let at = self.turn_environment(thread, environment_id)?;
        let at = TurnEnvironment::new(&at.environment_id, &at.cwd);
        let environments = self.settings.environments.clone();
        let read = tokio::task::spawn_blocking(move || {
            let workspace = environments.resolve(Some(&at));
            let reader = PartReader {
                workspace: workspace.as_ref().ok(),
            };
            reader.read_all(parts)
        });
        content.extend(read.await.map_err(ApiError::internal)??);
        Ok(content)
    }

    /// Rejects a path that the operator's rules deny to the tool that reads files. Otherwise, a client could give the model files that the model may
    /// not read.
    fn check_rules(&self, parts: &[InputPart]) -> Result<()> {
        let rules = self.runtime.approval_rules();
        for (n, part) in parts.iter().enumerate() {
            let (InputPart::Image { path, .. } | InputPart::File { path, .. }) = part else {
                continue;
            };
            let arguments = serde_json::json!({ "path": path });
            if path.is_some() && rules.decide(READ, &arguments, false) == ApprovalAction::Deny {
                let text = "an approval rule denies this path";
                return Err(ApiError::field(&format!("/input/{n}/path"), text));
            }
        }
        Ok(())
    }
}

/// The source of a part's bytes.
enum PartSource {
    Inline(Vec<u8>),
    Path(String),
}

struct PartReader<'a> {
    /// `None` if the environment cannot be opened; parts with a path are then rejected.
    workspace: Option<&'a ResolvedWorkspace>,
}

impl PartReader<'_> {
    fn read_all(&self, parts: Vec<InputPart>) -> Result<Vec<ContentPart>> {
        let mut left = MAX_TOTAL_BYTES;
        let mut content = Vec::with_capacity(parts.len());
        for (n, part) in parts.into_iter().enumerate() {
            let pointer = format!("/input/{n}");
            let (part, bytes) = self.read(&pointer, part)?;
            left = left.checked_sub(bytes).ok_or_else(|| {
                let text = format!("the parts have more than {MAX_TOTAL_BYTES} bytes together");
                ApiError::field("/input", text)
            })?;
            content.push(part);
        }
        Ok(content)
    }

    /// Returns the part and its size in bytes.
    fn read(&self, pointer: &str, part: InputPart) -> Result<(ContentPart, usize)> {
        match part {
            InputPart::Text { text } => {
                let bytes = text.len();
                Ok((ContentPart::text(text), bytes))
            }
            InputPart::Image {
                data,
                path,
                media_type,
            } => {
                let data = data.map(|data| decoded(pointer, &data)).transpose()?;
                let source = part_source(pointer, ("data", data), path)?;
                let bytes = self.bytes(pointer, source, MAX_IMAGE_BYTES)?;
                let image = image(pointer, &bytes, media_type)?;
                Ok((ContentPart::Image(image), bytes.len()))
            }
            InputPart::File { text, path, name } => {
                let name = name.or_else(|| path.clone()).unwrap_or_default();
                check_name(pointer, &name)?;
                let text = text.map(String::into_bytes);
                let source = part_source(pointer, ("text", text), path)?;
                let bytes = self.bytes(pointer, source, MAX_FILE_BYTES)?;
                let length = bytes.len();
                let text = String::from_utf8(bytes).ok();
                let text = text.filter(|text| !text.contains('\0')).ok_or_else(|| {
                    let text = format!(
                        "the file `{name}` is not UTF-8 text; other files are not sent to models"
                    );
                    ApiError::new(ErrorCode::UnsupportedInput, text)
                        .with(serde_json::json!({"field": pointer}))
                })?;
                let text = format!("<file name=\"{name}\">\n{text}\n</file>");
                Ok((ContentPart::text(text), length))
            }
        }
    }

    fn bytes(&self, pointer: &str, source: PartSource, limit: usize) -> Result<Vec<u8>> {
        let bytes = match source {
            PartSource::Inline(bytes) if bytes.len() > limit => None,
            PartSource::Inline(bytes) => Some(bytes),
            PartSource::Path(path) => {
                let at = format!("{pointer}/path");
                let no_workspace =
                    || ApiError::field(&at, "the turn's environment cannot be opened");
                let workspace = self.workspace.ok_or_else(no_workspace)?;
                let read = workspace.read_bytes(&path, limit as u64);
                read.map_err(|error| ApiError::field(&at, error.to_string()))?
            }
        };
        bytes.ok_or_else(|| ApiError::field(pointer, format!("it has more than {limit} bytes")))
    }
}

fn part_source(
    pointer: &str,
    (name, inline): (&str, Option<Vec<u8>>),
    path: Option<String>,
) -> Result<PartSource> {
    match (inline, path) {
        (Some(bytes), None) => Ok(PartSource::Inline(bytes)),
        (None, Some(path)) => Ok(PartSource::Path(path)),
        _ => {
            let text = format!("it has either `{name}` or `path`");
            Err(ApiError::field(pointer, text))
        }
    }
}

fn decoded(pointer: &str, data: &str) -> Result<Vec<u8>> {
    let pointer = format!("{pointer}/data");
    // In base64, four characters encode three bytes.
    if data.len() / 4 > MAX_IMAGE_BYTES.div_ceil(3) {
        let text = format!("an image has at most {MAX_IMAGE_BYTES} bytes");
        return Err(ApiError::field(&pointer, text));
    }
    let decoded = STANDARD.decode(data);
    decoded.map_err(|error| ApiError::field(&pointer, format!("it is not base64: {error}")))
}

fn image(pointer: &str, bytes: &[u8], declared: Option<String>) -> Result<ImageContentPart> {
    let detected = media_type(bytes).ok_or_else(|| {
        let text = "it is not an image of a known type: png, jpeg, gif or webp";
        ApiError::field(pointer, text)
    })?;
    if let Some(declared) = declared.filter(|declared| declared != detected) {
        let text = format!("the image is `{detected}` and not `{declared}`");
        return Err(ApiError::field(&format!("{pointer}/media_type"), text));
    }
    Ok(ImageContentPart {
        url: None,
        base64: Some(STANDARD.encode(bytes)),
        media_type: Some(detected.to_owned()),
    })
}

/// Detects the type of an image from its first bytes.
fn media_type(bytes: &[u8]) -> Option<&'static str> {
    if bytes.starts_with(b"\x89PNG\r\n\x1a\n") {
        Some("image/png")
    } else if bytes.starts_with(b"\xff\xd8\xff") {
        Some("image/jpeg")
    } else if bytes.starts_with(b"GIF87a") || bytes.starts_with(b"GIF89a") {
        Some("image/gif")
    } else if bytes.starts_with(b"RIFF") && bytes.get(8..12) == Some(b"WEBP") {
        Some("image/webp")
    } else {
        None
    }
}

/// The model reads the name in quotes, so it must not contain any.
fn check_name(pointer: &str, name: &str) -> Result<()> {
    let is_plain = |c: char| !c.is_control() && !matches!(c, '"' | '<' | '>');
    if !name.is_empty() && name.len() <= MAX_NAME_BYTES && name.chars().all(is_plain) {
        return Ok(());
    }
    let text = format!(
        "a file has a name of 1 to {MAX_NAME_BYTES} bytes without control characters, quotes and angle brackets"
    );
    Err(ApiError::field(&format!("{pointer}/name"), text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn media_type_is_detected_from_the_first_bytes() {
        for (bytes, expected) in [
            (&b"\x89PNG\r\n\x1a\n...."[..], Some("image/png")),
            (b"\xff\xd8\xff\xe0", Some("image/jpeg")),
            (b"GIF89a..", Some("image/gif")),
            (b"RIFF....WEBPVP8 ", Some("image/webp")),
            (b"RIFF....WAVEfmt ", None),
            (b"<svg xmlns=", None),
            (b"\x89PNG", None),
            (b"", None),
        ] {
            assert_eq!(media_type(bytes), expected, "{bytes:?}");
        }
    }
}
