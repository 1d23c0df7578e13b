//! The Runtime API for clients in this process: the same operations, without a transport.

use chrono::Utc;
use serde::Serialize;
use serde::de::DeserializeOwned;
use windlass_protocol::ErrorCode;
use windlass_protocol::api::{Call, CallError, CallFuture, RuntimeApi};
use windlass_protocol::operations::{self as op, Endpoint, Method, Path};

use crate::error::ApiError;
use crate::handle::Handle;
use crate::keyed_request::KeyedRequest;
use crate::operations::RequestContext;
use crate::service::Service;
use crate::store::StoredAnswer;
use crate::tokens::ApiCaller;

/// A client in this process. It has the rights of its caller, as over HTTP.
#[derive(Clone)]
pub struct InProcess {
    service: Service,
    caller: ApiCaller,
}

impl InProcess {
    /// Creates a client with the rights of a caller.
    #[must_use]
    pub fn new(service: Service, caller: ApiCaller) -> Self {
        Self { service, caller }
    }

    /// Returns a client of the same service with the rights of another caller.
    #[must_use]
    pub fn with_caller(&self, caller: ApiCaller) -> Self {
        Self::new(self.service.clone(), caller)
    }

    /// Executes an operation. An operation with side effects finishes even if the returned future is dropped.
    async fn execute<E>(self, call: Call<E>) -> Result<E::Response, CallError>
    where
        E: Endpoint<Response: Send>,
        Service: Handle<E>,
    {
        if E::OPERATION.method == Method::Get {
            return Ok(self.handle(call, None).await?);
        }
        let service = self.service.clone();
        Ok(service.run_detached(self.handle(call, None)).await??)
    }

    /// Executes an operation; a request with the idempotency key of an earlier one gets the earlier response.
    async fn execute_once<E>(self, call: Call<E>) -> Result<E::Response, CallError>
    where
        E: Endpoint<Response: Serialize + DeserializeOwned + Send>,
        Service: Handle<E>,
    {
        let is_post = E::OPERATION.method == Method::Post;
        let Some(key) = call.idempotency_key.as_ref().filter(|_| is_post) else {
            return self.execute(call).await;
        };
        let keyed = KeyedRequest::new(Some(&self.caller), key, &call.target()?, &call.body()?);
        let service = self.service.clone();
        Ok(service
            .run_detached(self.handle_once(call, keyed))
            .await??)
    }

    async fn handle_once<E>(
        self,
        call: Call<E>,
        keyed: KeyedRequest,
    ) -> Result<E::Response, ApiError>
    where
        E: Endpoint<Response: Serialize + DeserializeOwned + Send>,
        Service: Handle<E>,
    {
        let service = self.service.clone();
        let _guard = service.keyed_requests.lock(&keyed.key).await;
        if let Some(stored) = service.store.answer(&keyed.key).await? {
            if stored.request != keyed.digest {
                return Err(ApiError::new(
                    ErrorCode::IdempotencyConflict,
                    "the idempotency key was used for another request",
                ));
            }
            return serde_json::from_slice(&stored.body).map_err(ApiError::internal);
        }
        let response = self.handle(call, Some(keyed.repeatable())).await?;
        let answer = StoredAnswer {
            request: keyed.digest,
            status: E::OPERATION.status,
            content_type: Some("application/json".to_owned()),
            body: serde_json::to_vec(&response).map_err(ApiError::internal)?,
            at: Utc::now(),
        };
        service.store.store_answer(&keyed.key, answer).await?;
        Ok(response)
    }

    async fn handle<E>(
        self,
        call: Call<E>,
        repeatable: Option<String>,
    ) -> Result<E::Response, ApiError>
    where
        E: Endpoint,
        Service: Handle<E>,
    {
        let Self { service, caller } = self;
        let operation = E::OPERATION;
        let parameters = call.path.parameters();
        let thread = parameters.first().map_or("", |(_, value)| value);
        service
            .check_scope(&caller, operation.scope, thread, operation.path)
            .await?;
        let ctx = RequestContext {
            repeatable,
            ..RequestContext::new(caller)
        };
        service.handle(&ctx, call).await
    }
}

macro_rules! execute {
    ($api:expr, $call:expr, Json) => {
        $api.execute_once($call)
    };
    ($api:expr, $call:expr, $form:ident) => {
        $api.execute($call)
    };
}

macro_rules! implement {
    ($($name:ident $function:ident $form:ident;)*) => {
        impl RuntimeApi for InProcess {
            $(
                fn $function(
                    &self,
                    call: Call<op::$name>,
                ) -> CallFuture<'_, <op::$name as Endpoint>::Response> {
                    Box::pin(execute!(self.clone(), call, $form))
                }
            )*
        }
    };
}

windlass_protocol::for_each_operation!(implement);
