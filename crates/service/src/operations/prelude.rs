//! Imports of every operation.

pub(in crate::operations) use windlass_protocol::ErrorCode;
pub(in crate::operations) use windlass_protocol::api::Call;
pub(in crate::operations) use windlass_protocol::operations as op;

pub(in crate::operations) use super::{RequestContext, accessible, limit, saturated};
pub(in crate::operations) use crate::error::{ApiError, Result};
pub(in crate::operations) use crate::handle::Handle;
pub(in crate::operations) use crate::service::Service;
