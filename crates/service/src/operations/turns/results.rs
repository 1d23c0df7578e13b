//! Results of calls that clients execute.

use windlass_core::error::AgentLoopError;
use windlass_core::tools::{ToolResult, ToolResultImage};
use windlass_core::typed_id::ExecId;
use windlass_protocol::{DynamicToolCallContent, DynamicToolCallResult};

use crate::ids;
use crate::operations::prelude::*;

/// The model's text for a failure without a message.
const FAILED: &str = "external tool failed";

impl Handle<op::SubmitToolResult> for Service {
    async fn handle(&self, ctx: &RequestContext, call: Call<op::SubmitToolResult>) -> Result<()> {
        let (path, result) = (call.path, call.request);
        let mut unknown = ctx.unknown_fields.top_level();
        if let Some(other) = unknown.next().filter(|_| result.content.is_empty()) {
            // A call accepts one result, so a result in an unknown field must be an error rather than an empty result.
            let text = format!(
                "`{other}` is not read; put the result into `content`: [{{\"type\":\"input_text\",\"text\":\"…\"}}]"
            );
            return Err(ApiError::field("/content", text));
        }
        self.submit_result(&path.id, &path.turn_id, &path.call_id, result)
            .await
    }
}

impl Service {
    /// Records the result of a call.
    pub(crate) async fn submit_result(
        &self,
        id: &str,
        turn_id: &str,
        call_id: &str,
        result: DynamicToolCallResult,
    ) -> Result<()> {
        let not_pending = || {
            let text = format!("No pending dynamic tool call '{call_id}'");
            ApiError::new(ErrorCode::ToolCallNotPending, text)
        };
        let found = self.find(id).await?;
        let exec_id = ids::parse_call(call_id).ok_or_else(not_pending)?;
        let wait = self.queries.wait(exec_id).await?.ok_or_else(not_pending)?;
        if wait.stream != found.row.stream || wait.turn_id.to_string() != turn_id {
            return Err(not_pending());
        }
        let results = vec![read(exec_id, result)?];
        let taken = self.runtime.submit_tool_results(found.id, results).await;
        check_taken(taken, not_pending)
    }
}

/// Returns an error unless the turn accepted the answer. An equal repeat after the end of the turn counts as accepted.
pub(crate) fn check_taken<T>(
    outcome: Result<T, AgentLoopError>,
    not_pending: impl Fn() -> ApiError,
) -> Result<()> {
    match outcome {
        Ok(_) | Err(AgentLoopError::NoActiveTurn(_)) => Ok(()),
        Err(AgentLoopError::NoPendingCall { .. }) => Err(not_pending()),
        Err(error) => Err(error.into()),
    }
}

fn read(exec_id: ExecId, result: DynamicToolCallResult) -> Result<ToolResult> {
    let mut texts = Vec::new();
    let mut images = Vec::new();
    for (index, content) in result.content.into_iter().enumerate() {
        match content {
            DynamicToolCallContent::InputText { text } => texts.push(text),
            DynamicToolCallContent::InputImage { image_url } => {
                let image = image(&image_url).ok_or_else(|| {
                    let pointer = format!("/content/{index}/image_url");
                    ApiError::field(
                        &pointer,
                        "an image has an http, https or base64 data address",
                    )
                })?;
                images.push(image);
            }
        }
    }
    let (id, text) = (exec_id.to_string(), texts.join("\n"));
    let answer = match result.success {
        true => ToolResult::success(id, text),
        false if text.is_empty() => ToolResult::failure(id, FAILED),
        false => ToolResult::failure(id, text),
    };
    Ok(ToolResult {
        images: Some(images).filter(|images| !images.is_empty()),
        ..answer
    })
}

/// Parses the URL of an image; nothing is fetched.
fn image(url: &str) -> Option<ToolResultImage> {
    if url.starts_with("http://") || url.starts_with("https://") {
        return Some(ToolResultImage::at(url));
    }
    let (media, data) = url.strip_prefix("data:")?.split_once(";base64,")?;
    Some(ToolResultImage {
        base64: data.to_owned(),
        media_type: media.to_owned(),
    })
}
