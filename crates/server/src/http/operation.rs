//! Extracts the request of an operation of the contract.

use axum::body::Body;
use axum::extract::{FromRequest, FromRequestParts, Path, Request};
use axum::http::request::Parts;
use serde_json::Value;
use windlass_protocol::ErrorCode;
use windlass_protocol::api::Call;
use windlass_protocol::operations::{Endpoint, Query, RequestBody, RequiredScope};
use windlass_service::{ApiCaller, ApiError, RequestContext, UnknownFields, fields};

use super::request::{IgnoredFields, Repeatable};
use super::{auth, body, query};
use crate::app::SharedApp;
use crate::error::{HttpRefusal, Result};

/// A request for an operation.
pub(crate) struct Operation<E: Endpoint> {
    pub(crate) ctx: RequestContext,
    pub(crate) call: Call<E>,
}

impl<E: Endpoint> FromRequest<SharedApp> for Operation<E> {
    type Rejection = HttpRefusal;

    async fn from_request(request: Request, app: &SharedApp) -> Result<Self, HttpRefusal> {
        let (mut head, content) = request.into_parts();
        let caller = caller::<E>(&head)?;
        let path = path::<E>(&mut head).await?;
        let pairs = query::pairs(head.uri.query().unwrap_or_default())?;
        let query = E::Query::read(&pairs).map_err(|error| ApiError::query(error.to_string()))?;
        let (request, unknown_fields) = body::<E>(app, &head, content).await?;
        let repeatable = head.extensions.remove::<Repeatable>();
        Ok(Self {
            ctx: RequestContext {
                caller,
                repeatable: repeatable.map(|Repeatable(digest)| digest),
                unknown_fields,
            },
            call: Call::new(path, request).with_query(query),
        })
    }
}

/// Returns the caller that the token identified.
fn caller<E: Endpoint>(head: &Parts) -> Result<ApiCaller> {
    match head.extensions.get::<ApiCaller>() {
        Some(caller) => Ok(caller.clone()),
        None if E::OPERATION.scope == RequiredScope::Anyone => Ok(ApiCaller::anonymous()),
        None => Err(auth::unauthorized()),
    }
}

async fn path<E: Endpoint>(head: &mut Parts) -> Result<E::Path> {
    let path = Path::from_request_parts(head, &()).await;
    path.map(|Path(path)| path).map_err(|_| {
        let text = "the path is not percent-encoded UTF-8";
        ApiError::new(ErrorCode::UnknownPath, text)
    })
}

async fn body<E: Endpoint>(
    app: &SharedApp,
    head: &Parts,
    content: Body,
) -> Result<(E::Request, UnknownFields)> {
    let is_json = body::is_json(&head.headers);
    let needs_json = E::OPERATION.body == RequestBody::Required;
    if needs_json && !is_json {
        return Err(body::unsupported());
    }
    if E::OPERATION.body == RequestBody::None && head.method.is_safe() {
        return no_body();
    }
    let bytes = body::bytes(app, head.extensions.get::<ApiCaller>(), content).await?;
    let is_blank = bytes.iter().all(u8::is_ascii_whitespace);
    match E::OPERATION.body {
        RequestBody::None => no_body(),
        RequestBody::Optional if is_blank => fields::read_body(b"{}"),
        RequestBody::Optional if !is_json => Err(body::unsupported()),
        RequestBody::Optional | RequestBody::Required => {
            let (request, unknown) = fields::read_body(&bytes)?;
            if let Some(ignored) = head.extensions.get::<IgnoredFields>() {
                ignored.add(unknown.top_level());
            }
            Ok((request, unknown))
        }
    }
}

/// Returns the empty body of an operation without one.
fn no_body<T: serde::de::DeserializeOwned>() -> Result<(T, UnknownFields)> {
    let request = serde_json::from_value(Value::Null).map_err(ApiError::internal)?;
    Ok((request, UnknownFields::default()))
}
