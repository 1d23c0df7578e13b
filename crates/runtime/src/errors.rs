//! Conversion from internal errors to the error that applications receive.

use windlass_core::error::AgentLoopError;
use windlass_core::typed_id::SessionId;
use windlass_store::{JournalError, QueryError};
use windlass_turn::{FailureDetails, Rejected};

pub(crate) fn from_journal(error: JournalError) -> AgentLoopError {
    AgentLoopError::StoreUnavailable(error.to_string())
}

pub(crate) fn from_query(error: QueryError) -> AgentLoopError {
    match error {
        QueryError::Journal(error) => from_journal(error),
        // The caller can correct it.
        QueryError::Cursor(_) => AgentLoopError::config(error.to_string()),
        error => AgentLoopError::StoreUnavailable(error.to_string()),
    }
}

pub(crate) fn from_rejection(session_id: SessionId, rejected: Rejected) -> AgentLoopError {
    match rejected {
        Rejected::Busy(turn_id) => AgentLoopError::TurnBusy {
            session_id,
            turn_id,
        },
        Rejected::Waiting {
            turn_id,
            waiting_for,
        } => AgentLoopError::TurnWaiting {
            turn_id,
            waiting_for,
        },
        Rejected::UnknownTurn(turn_id) => AgentLoopError::TurnNotFound {
            session_id,
            turn_id,
        },
        Rejected::NotQueued(turn_id) => AgentLoopError::TurnNotQueued {
            session_id,
            turn_id,
        },
        Rejected::NoTurn => AgentLoopError::NoActiveTurn(session_id),
        Rejected::NoPendingCall { call, reason } => AgentLoopError::NoPendingCall {
            call_id: call,
            reason: reason.to_owned(),
        },
        Rejected::Quota(quota) => AgentLoopError::QuotaExceeded(quota),
        Rejected::Stale(_) | Rejected::NotEmittable(_) | Rejected::InvalidEvent(_) => {
            AgentLoopError::event(rejected.to_string())
        }
        Rejected::Unusable(_) => AgentLoopError::config(rejected.to_string()),
        Rejected::NotImportable(_) => AgentLoopError::store(rejected.to_string()),
    }
}

/// Returns the recorded form of an error. The text contains each cause once.
pub(crate) fn to_failure(error: &AgentLoopError) -> FailureDetails {
    FailureDetails {
        code: code(error).to_owned(),
        message: error.to_string(),
        user_message: error.user_facing_message(),
        fields: None,
    }
}

fn code(error: &AgentLoopError) -> &'static str {
    match error {
        AgentLoopError::Configuration(_) | AgentLoopError::DriverNotRegistered(_) => {
            "configuration"
        }
        AgentLoopError::HarnessNotFound(_) | AgentLoopError::AgentNotFound(_) => "configuration",
        AgentLoopError::EnvironmentNotFound(_) => "environment_not_found",
        AgentLoopError::QuotaExceeded(_) => "quota_exceeded",
        AgentLoopError::BudgetExceeded(_) => "budget_exceeded",
        AgentLoopError::UnsupportedInput { .. } => "unsupported_input",
        AgentLoopError::Internal(_) => "internal",
        _ => error.kind().as_str(),
    }
}
