//! Why work is refused, as clients hear it.

use serde_json::json;
use windlass_core::error::AgentLoopError;
use windlass_protocol::ErrorCode;
use windlass_work::WorkError;

use crate::error::ApiError;

impl From<WorkError> for ApiError {
    fn from(error: WorkError) -> Self {
        let text = error.to_string();
        match error {
            WorkError::Invalid { field, reason } => {
                Self::field(&format!("/{field}"), format!("`{field}` {reason}"))
            }
            WorkError::Rule(_) => Self::new(ErrorCode::InvalidSchedule, text),
            WorkError::TooMany { what, limit } => Self::limit(what, limit),
            WorkError::TooManyBytes { what, limit } => Self::new(ErrorCode::LimitReached, text)
                .with(json!({"limit_bytes": limit, "of": what})),
            WorkError::NotFound {
                what: "automation", ..
            } => Self::new(ErrorCode::AutomationNotFound, text),
            WorkError::NotFound {
                what: "fleet run", ..
            } => Self::new(ErrorCode::FleetRunNotFound, text),
            WorkError::NotFound { what: "worker", .. } => {
                Self::new(ErrorCode::WorkerNotFound, text)
            }
            WorkError::Conflict {
                what: "fleet run", ..
            } => Self::new(ErrorCode::FleetRunEnded, text),
            WorkError::Conflict { what: "worker", .. } => Self::new(ErrorCode::WorkerIdle, text),
            WorkError::NotFound { .. } => Self::new(ErrorCode::TaskNotFound, text),
            WorkError::Replaced | WorkError::Storage(_) => {
                AgentLoopError::StoreUnavailable(text).into()
            }
            error => Self::internal(error),
        }
    }
}
