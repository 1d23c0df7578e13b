//! Reading the ids in a path.

use axum::extract::{FromRequestParts, Path as AnyPath};
use axum::http::request::Parts;
use serde::de::DeserializeOwned;
use windlass_protocol::ErrorCode;

use windlass_service::ApiError;

use crate::error::{Refusal, Result};

/// What a path names; one that cannot be read is refused in the shape of all errors.
pub(crate) struct Path<T>(pub(crate) T);

impl<S, T> FromRequestParts<S> for Path<T>
where
    S: Send + Sync,
    T: DeserializeOwned + Send,
{
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refusal> {
        let path = AnyPath::<T>::from_request_parts(parts, state).await;
        path.map(|path| Self(path.0)).map_err(|_| {
            let text = "nothing has this path: it is not percent-encoded UTF-8";
            ApiError::new(ErrorCode::UnknownPath, text).into()
        })
    }
}
