//! Job errors as API errors.

use serde_json::json;
use windlass_core::error::AgentLoopError;
use windlass_jobs::JobError;
use windlass_protocol::ErrorCode;

use crate::error::ApiError;

impl From<JobError> for ApiError {
    fn from(error: JobError) -> Self {
        let text = error.to_string();
        match error {
            JobError::Invalid { field, reason } => {
                Self::field(&format!("/{field}"), format!("`{field}` {reason}"))
            }
            JobError::Rule(_) => Self::new(ErrorCode::InvalidSchedule, text),
            JobError::TooMany { object, limit } => Self::limit(object, limit),
            JobError::TooManyBytes { object, limit } => Self::new(ErrorCode::LimitReached, text)
                .with(json!({"limit_bytes": limit, "of": object})),
            JobError::NotFound {
                object: "automation",
                ..
            } => Self::new(ErrorCode::AutomationNotFound, text),
            JobError::NotFound {
                object: "fleet run",
                ..
            } => Self::new(ErrorCode::FleetRunNotFound, text),
            JobError::NotFound {
                object: "worker", ..
            } => Self::new(ErrorCode::WorkerNotFound, text),
            JobError::Conflict {
                object: "fleet run",
                ..
            } => Self::new(ErrorCode::FleetRunEnded, text),
            JobError::Conflict {
                object: "worker", ..
            } => Self::new(ErrorCode::WorkerIdle, text),
            JobError::NotFound { .. } => Self::new(ErrorCode::TaskNotFound, text),
            JobError::Replaced | JobError::Storage(_) => {
                AgentLoopError::StoreUnavailable(text).into()
            }
            error => Self::internal(error),
        }
    }
}
