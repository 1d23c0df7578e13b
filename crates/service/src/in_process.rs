//! The Runtime API for clients in this process: the same operations, without a transport.

use serde_json::json;
use windlass_protocol::api::{Call, CallError, CallFuture, RuntimeApi};
use windlass_protocol::operations::{self as op, Endpoint, Method, Path, Query};

use crate::error::ApiError;
use crate::handle::Handle;
use crate::operations::RequestContext;
use crate::service::Service;
use crate::tokens::Caller;

/// A client in this process. It has the rights of its caller, as over HTTP.
#[derive(Clone)]
pub struct InProcess {
    service: Service,
    caller: Caller,
}

impl InProcess {
    /// Creates a client with the rights of a caller.
    #[must_use]
    pub fn new(service: Service, caller: Caller) -> Self {
        Self { service, caller }
    }

    /// Executes an operation. One that changes something finishes also if the returned future is dropped.
    async fn execute<E>(self, call: Call<E>) -> Result<E::Response, CallError>
    where
        E: Endpoint<Response: Send>,
        Service: Handle<E>,
    {
        let Self { service, caller } = self;
        let operation = E::OPERATION;
        let parameters = call.path.parameters();
        let thread = parameters.first().map_or("", |(_, value)| value);
        service
            .check_scope(&caller, operation.scope, thread, operation.path)
            .await?;
        let context = RequestContext {
            repeatable: repeatable(&caller, &call)?,
            ..RequestContext::new(caller)
        };
        if operation.method == Method::Get {
            return Ok(service.handle(&context, call).await?);
        }
        let executing = {
            let service = service.clone();
            async move { service.handle(&context, call).await }
        };
        Ok(service.carry(executing).await??)
    }
}

/// Identifies a request with an idempotency key: the same key with another request is another one.
fn repeatable<E: Endpoint>(caller: &Caller, call: &Call<E>) -> Result<Option<String>, ApiError> {
    let Some(key) = &call.idempotency_key else {
        return Ok(None);
    };
    let request = json!([
        caller.token_id,
        key,
        E::OPERATION.name,
        call.path.parameters(),
        call.query.pairs(),
        call.request,
    ]);
    let request = serde_json::to_vec(&request).map_err(ApiError::internal)?;
    Ok(Some(blake3::hash(&request).to_hex().to_string()))
}

macro_rules! implement {
    ($($name:ident $function:ident $form:ident;)*) => {
        impl RuntimeApi for InProcess {
            $(
                fn $function(
                    &self,
                    call: Call<op::$name>,
                ) -> CallFuture<'_, <op::$name as Endpoint>::Response> {
                    Box::pin(self.clone().execute(call))
                }
            )*
        }
    };
}

windlass_protocol::for_each_operation!(implement);
