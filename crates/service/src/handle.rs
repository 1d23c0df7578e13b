//! An operation of the Runtime API as a typed function.

use std::future::Future;

use windlass_protocol::api::Call;
use windlass_protocol::operations::Endpoint;

use crate::error::Result;
use crate::operations::RequestContext;

/// Executes one operation. [`Service`](crate::Service) implements it for every operation of the contract.
pub trait Handle<E: Endpoint> {
    /// Executes a request whose caller has the scope that the operation requires.
    ///
    /// # Errors
    /// The refusal that the client receives.
    fn handle(
        &self,
        ctx: &RequestContext,
        call: Call<E>,
    ) -> impl Future<Output = Result<E::Response>> + Send;
}
