//! Converts an editor's prompt to the text of a turn.

use serde_json::Value;

use crate::stdio_rpc::RpcFailure;

/// Joins the blocks of a prompt. Block types that the capabilities exclude are rejected.
pub(super) fn text(blocks: &Value) -> Result<String, RpcFailure> {
    let blocks = blocks.as_array().map(Vec::as_slice).unwrap_or_default();
    let mut texts = Vec::new();
    for block in blocks {
        texts.push(block_text(block)?);
    }
    let text = texts.join("\n");
    if text.trim().is_empty() {
        Err(RpcFailure::invalid_params("the prompt is empty"))
    } else {
        Ok(text)
    }
}

fn block_text(block: &Value) -> Result<String, RpcFailure> {
    let field = |name: &str| block[name].as_str().unwrap_or_default();
    match field("type") {
        "text" => Ok(field("text").to_owned()),
        "resource_link" => Ok(format!("[{}]({})", field("name"), field("uri"))),
        "resource" => {
            let resource = &block["resource"];
            let uri = resource["uri"].as_str().unwrap_or_default();
            match resource["text"].as_str() {
                Some(text) => Ok(format!("<resource uri=\"{uri}\">\n{text}\n</resource>")),
                None => Err(RpcFailure::invalid_params(format!(
                    "the resource {uri} is not text"
                ))),
            }
        }
        kind => Err(RpcFailure::invalid_params(format!(
            "a prompt cannot contain blocks of type `{kind}`"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::text;

    #[test]
    fn text_links_and_files_are_joined_and_other_blocks_rejected() {
        let blocks = json!([
            {"type": "text", "text": "Look at"},
            {"type": "resource_link", "name": "a.rs", "uri": "file:///a.rs"},
            {"type": "resource", "resource": {"uri": "file:///b", "text": "fn b() {}"}},
        ]);
        let joined = text(&blocks).unwrap();
        assert_eq!(
            joined,
            "Look at\n[a.rs](file:///a.rs)\n<resource uri=\"file:///b\">\nfn b() {}\n</resource>"
        );
        for odd in [
            json!(null),
            json!([]),
            json!([{"type": "text", "text": " "}]),
            json!([{"type": "image", "data": ""}]),
            json!([{"type": "resource", "resource": {"uri": "x", "blob": ""}}]),
        ] {
            assert!(text(&odd).is_err(), "{odd}");
        }
    }
}
