//! Response bodies without decoding.

use http_body_util::BodyExt;
use hyper::body::Incoming;
use windlass_protocol::api::{CallFuture, Parts};

use crate::client::broken;

/// The bytes of a response.
pub(crate) struct RawParts(pub(crate) Incoming);

impl Parts<Vec<u8>> for RawParts {
    fn next(&mut self) -> CallFuture<'_, Option<Vec<u8>>> {
        Box::pin(async {
            while let Some(frame) = self.0.frame().await {
                // Other frames are trailers.
                if let Ok(data) = frame.map_err(broken)?.into_data() {
                    return Ok(Some(data.into()));
                }
            }
            Ok(None)
        })
    }
}
