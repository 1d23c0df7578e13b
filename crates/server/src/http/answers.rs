//! Limits on the unread responses of one token.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use axum::response::{IntoResponse, Response};
use hyper::body::{Frame, SizeHint};
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit};
use windlass_service::{ApiCaller, ApiError, PIECE_BYTES, Quota, Share};

use crate::app::SharedApp;
use crate::error::{HttpRefusal, Result};

/// Responses up to this many bytes are not counted: a connection holds one at a time.
const SMALL_BYTES: u64 = 16 * 1024;
/// How long a request waits for one of its token's large responses to end.
const MAX_WAIT: Duration = Duration::from_secs(5);

/// How many responses are composed at once. A chunk may need a few copies of its largest item, and hundreds of requests can arrive at once. Composing
/// never waits for a client, so the other requests wait only briefly.
const COMPOSED_AT_ONCE: usize = 4;

/// Large responses of each token, produced while they are read from the journal.
pub(crate) struct LargeAnswers {
    tokens: Mutex<HashMap<Option<String>, Arc<Semaphore>>>,
    composing: Semaphore,
}

impl Default for LargeAnswers {
    fn default() -> Self {
        Self {
            tokens: Mutex::default(),
            composing: Semaphore::new(COMPOSED_AT_ONCE),
        }
    }
}

impl LargeAnswers {
    /// Waits for a permit to compose a response or a chunk of one.
    pub(crate) async fn compose(&self) -> Option<SemaphorePermit<'_>> {
        // The semaphore is never closed.
        self.composing.acquire().await.ok()
    }

    /// Takes one of the token's permits; requests wait in order of arrival.
    pub(crate) async fn take(
        &self,
        app: &SharedApp,
        caller: &ApiCaller,
    ) -> Result<OwnedSemaphorePermit> {
        let limit = app.service.settings.limits.large_answers_of_token;
        let permits = self.permits(caller.credential().map(str::to_owned), limit);
        match tokio::time::timeout(MAX_WAIT, permits.acquire_owned()).await {
            Ok(Ok(permit)) => Ok(permit),
            _ => Err(ApiError::limit("large answers of one token at once", limit)),
        }
    }

    fn permits(&self, token_id: Option<String>, limit: usize) -> Arc<Semaphore> {
        let mut tokens = self.tokens.lock();
        // Unused semaphores are created again on demand.
        tokens.retain(|_, permits| Arc::strong_count(permits) > 1);
        let permits = tokens.entry(token_id);
        Arc::clone(permits.or_insert_with(|| Arc::new(Semaphore::new(limit))))
    }
}

/// Charges the bytes of a response to its token until they are written or dropped.
pub(super) fn count(app: &SharedApp, caller: &ApiCaller, response: Response) -> Response {
    let bytes = response.body().size_hint().exact();
    let Some(bytes) = bytes.filter(|bytes| *bytes > SMALL_BYTES) else {
        return response;
    };
    let limit = app.service.settings.limits.answer_bytes_of_token;
    let mut share = Share::none(&app.service, caller.credential(), Quota::AnswerBytes);
    // A response larger than the limit is sent alone.
    let bytes = usize::try_from(bytes).unwrap_or(usize::MAX).min(limit);
    if let Err(refusal) = share.grow(bytes) {
        return HttpRefusal(refusal).into_response();
    }
    response.map(|body| {
        Body::new(ChargedBody {
            body,
            rest: Bytes::new(),
            _share: share,
        })
    })
}

/// A body that occupies a part of a quota until it is written. The connection gets it in pieces: given the whole body, hyper would drop it at once
/// and buffer the bytes uncounted.
struct ChargedBody {
    body: Body,
    rest: Bytes,
    _share: Share,
}

impl HttpBody for ChargedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<std::result::Result<Frame<Bytes>, axum::Error>>> {
        if self.rest.is_empty() {
            match ready!(Pin::new(&mut self.body).poll_frame(cx)) {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => self.rest = data,
                    Err(frame) => return Poll::Ready(Some(Ok(frame))),
                },
                ended => return Poll::Ready(ended),
            }
        }
        let piece = self.rest.len().min(PIECE_BYTES);
        let piece = self.rest.split_to(piece);
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let mut hint = self.body.size_hint();
        if let Some(left) = hint.exact() {
            hint.set_exact(left + self.rest.len() as u64);
        }
        hint
    }
}
