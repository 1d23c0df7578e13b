//! Refusals as HTTP responses. The status follows from the code, never from the text.

use axum::body::Body;
use axum::http::{HeaderValue, Response, StatusCode, header};
use axum::response::IntoResponse;
use windlass_protocol::{ErrorBody, ErrorCode};
use windlass_service::ApiError;

pub(crate) type Result<T, E = ApiError> = std::result::Result<T, E>;

/// A refusal as a response.
#[derive(Debug, Clone)]
pub(crate) struct HttpRefusal(pub(crate) ApiError);

impl From<ApiError> for HttpRefusal {
    fn from(error: ApiError) -> Self {
        Self(error)
    }
}

impl IntoResponse for HttpRefusal {
    fn into_response(self) -> Response<Body> {
        let Self(error) = self;
        let (code, retry_after) = (error.code(), error.retry_after());
        let status =
            StatusCode::from_u16(code.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        // The layer that knows the request ID adds it.
        let failure = (code == ErrorCode::Internal).then(|| error.clone());
        let text = serde_json::to_vec(&ErrorBody::from(error)).unwrap_or_default();
        let mut response = Response::new(Body::from(text));
        if let Some(failure) = failure {
            response.extensions_mut().insert(failure);
        }
        *response.status_mut() = status;
        let headers = response.headers_mut();
        headers.insert(
            header::CONTENT_TYPE,
            HeaderValue::from_static("application/json"),
        );
        if let Some(seconds) = retry_after {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r3_status_follows_from_the_code() {
        for code in ErrorCode::ALL {
            let error = ApiError::new(*code, "404 not found, turn active, 500");
            let response = HttpRefusal(error).into_response();
            assert_eq!(response.status().as_u16(), code.status());
        }
    }
}
