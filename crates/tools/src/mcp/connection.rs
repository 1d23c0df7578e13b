//! A connection to one server.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rmcp::model::{
    CallToolRequest, CallToolRequestParams, CallToolResult, CancelledNotificationParam,
    ClientRequest, JsonObject, ListToolsRequest, PaginatedRequestParams, ProgressToken, RequestId,
    ServerResult,
};
use rmcp::service::{
    ClientInitializeError, Peer, PeerRequestOptions, RequestHandle, RunningService, ServiceError,
};
use rmcp::transport::IntoTransport;
use rmcp::{RoleClient, serve_client};
use windlass_core::bounds::lines;
use windlass_core::traits::ToolContext;
use windlass_process::Output;

use super::definition::Offered;
use super::flood::Flood;
use super::handler::Handler;
use crate::lock::lock;

/// Maximum number of tools of a server.
const MAX_TOOLS: usize = 128;
/// Maximum number of pages of its list.
const MAX_PAGES: usize = 32;
/// Maximum number of remarks about omitted tools.
const MAX_REMARKS: usize = 8;
/// Maximum number of bytes shown of a server's error message.
const MAX_ERROR: usize = 4 * 1024;
/// How long to wait for the remaining stderr output of a program that ended.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// Minimum interval between progress reports of a call.
const PROGRESS_PAUSE: Duration = Duration::from_millis(250);
/// Maximum number of progress reports of a call.
const MAX_PROGRESS: usize = 400;

/// The tools of a server.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Listed {
    pub(super) tools: Vec<Offered>,
    /// Tools that were omitted, with the reasons.
    pub(super) remarks: Vec<String>,
}

struct Kept {
    /// The tools of the server, or the error of listing them.
    listed: Result<Arc<Listed>, String>,
    at: Instant,
    /// Value of the change counter when the list was requested.
    changes: u64,
}

/// A connection to one server.
pub(super) struct Connection {
    peer: Peer<RoleClient>,
    service: Mutex<Option<RunningService<RoleClient, Arc<Handler>>>>,
    handler: Arc<Handler>,
    flood: Arc<Flood>,
    complaints: Option<Arc<Output>>,
    list: tokio::sync::Mutex<Option<Kept>>,
}

/// Time limits of a call.
#[derive(Clone, Copy)]
pub(super) struct Times {
    /// Maximum time without a message from the server.
    pub(super) silence: Duration,
    /// Maximum total time, whatever the server sends.
    pub(super) total: Duration,
}

impl Connection {
    /// Initializes the protocol with a server.
    pub(super) async fn greet<T, E, A>(
        transport: T,
        client_name: &str,
        flood: Arc<Flood>,
        complaints: Option<Arc<Output>>,
    ) -> Result<Self, String>
    where
        T: IntoTransport<RoleClient, E, A>,
        E: std::error::Error + Send + Sync + 'static,
    {
        let handler = Arc::new(Handler::new(client_name));
        let service = match serve_client(Arc::clone(&handler), transport).await {
            Ok(service) => service,
            Err(error) => {
                let why = flood.over().unwrap_or_else(|| why(&error));
                return Err(with_complaints(&why, complaints.as_deref()).await);
            }
        };
        Ok(Self {
            peer: service.peer().clone(),
            service: Mutex::new(Some(service)),
            handler,
            flood,
            complaints,
            list: tokio::sync::Mutex::new(None),
        })
    }

    pub(super) fn is_alive(&self) -> bool {
        !self.peer.is_transport_closed() && self.flood.over().is_none()
    }

    /// Returns why the connection ended.
    pub(super) async fn end(&self) -> String {
        let why = self.flood.over();
        let why = why.unwrap_or_else(|| "the connection is closed".to_owned());
        with_complaints(&why, self.complaints.as_deref()).await
    }

    /// Closes the connection and waits until the server's program is gone.
    pub(super) async fn close(&self) {
        let service = lock(&self.service).take();
        if let Some(service) = service {
            let _ = service.cancel().await;
        }
    }

    /// Returns the tools of the server. They are listed again after a change notification or when the cached list has expired. Concurrent callers
    /// share one request, and an error is cached as long as a list. An unchanged list is the same `Arc`.
    pub(super) async fn listed(
        &self,
        kept_for: Duration,
        timeout: Duration,
    ) -> Result<Arc<Listed>, String> {
        let began = Instant::now();
        let late = || {
            format!(
                "it did not list its tools within {} ms",
                timeout.as_millis()
            )
        };
        let locked = tokio::time::timeout(timeout, self.list.lock()).await;
        let mut list = locked.map_err(|_| late())?;
        let changes = self.handler.changes.load(Ordering::Acquire);
        if let Some(kept) = &*list
            && kept.changes == changes
            && (kept.at.elapsed() < kept_for || kept.at >= began)
        {
            return kept.listed.clone();
        }
        let before = list.take().and_then(|kept| kept.listed.ok());
        let asked = tokio::time::timeout(timeout.saturating_sub(began.elapsed()), async {
            tokio::select! {
                biased;
                listed = self.ask_for_list() => listed,
                () = self.flood.ended() => Err(self.end().await),
            }
        });
        let listed = asked.await.unwrap_or_else(|_| Err(late()));
        let listed = listed.map(|listed| match before {
            Some(before) if *before == listed => before,
            _ => Arc::new(listed),
        });
        *list = Some(Kept {
            listed: listed.clone(),
            at: Instant::now(),
            changes,
        });
        listed
    }

    async fn ask_for_list(&self) -> Result<Listed, String> {
        let mut listed = Listed::default();
        let mut cursor = None;
        let mut digests = HashMap::new();
        for _ in 0..MAX_PAGES {
            let params = PaginatedRequestParams::default().with_cursor(cursor.take());
            let request = ListToolsRequest {
                params: Some(params),
                ..ListToolsRequest::default()
            };
            let asked = self
                .peer
                .send_request(ClientRequest::ListToolsRequest(request));
            let page = match asked.await {
                Ok(ServerResult::ListToolsResult(page)) => page,
                Ok(_) => return Err("its list of tools cannot be read".to_owned()),
                Err(error) => return Err(self.told(error).await),
            };
            for raw in &page.tools {
                if listed.tools.len() >= MAX_TOOLS {
                    let remark =
                        format!("it offers more than {MAX_TOOLS} tools; the rest is left out");
                    listed.remarks.push(remark);
                    return Ok(listed);
                }
                let remark = match Offered::of(raw) {
                    Ok(tool) if digests.insert(tool.tool.clone(), ()).is_some() => {
                        format!(
                            "tool `{}` is left out the second time: it is listed twice",
                            tool.tool
                        )
                    }
                    Ok(tool) => {
                        listed.tools.push(tool);
                        continue;
                    }
                    Err(remark) => remark,
                };
                if listed.remarks.len() < MAX_REMARKS {
                    listed.remarks.push(remark);
                }
            }
            cursor = page.next_cursor;
            if cursor.is_none() {
                return Ok(listed);
            }
        }
        listed.remarks.push(format!(
            "its list has more than {MAX_PAGES} pages; the rest is left out"
        ));
        Ok(listed)
    }

    /// Calls a tool. Dropping the future sends a cancellation to the server.
    pub(super) async fn call(
        &self,
        tool: &str,
        arguments: JsonObject,
        times: Times,
        context: &ToolContext,
        shown_as: &str,
    ) -> Result<CallToolResult, String> {
        let mut params = CallToolRequestParams::new(tool.to_owned());
        params.arguments = Some(arguments);
        let options = PeerRequestOptions::with_timeout(times.silence)
            .reset_timeout_on_progress()
            .with_max_total_timeout(times.total);
        let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
        let sent = self.peer.send_request_with_option(request, options).await;
        let handle: RequestHandle<RoleClient> = match sent {
            Ok(handle) => handle,
            Err(error) => return Err(self.told(error).await),
        };
        let mut open = OpenCall {
            connection: self,
            id: Some(handle.id.clone()),
            token: handle.progress_token.clone(),
        };
        let mut progress = self.handler.listen(handle.progress_token.clone());
        let answer = handle.await_response();
        tokio::pin!(answer);
        let mut told = 0;
        let mut next = Instant::now();
        let answer = loop {
            tokio::select! {
                biased;
                answer = &mut answer => break answer,
                // Over HTTP, the call would otherwise wait until its time limit.
                () = self.flood.ended() => break Err(ServiceError::TransportClosed),
                Some(remark) = progress.recv() => {
                    if told < MAX_PROGRESS && Instant::now() >= next {
                        told += 1;
                        next = Instant::now() + PROGRESS_PAUSE;
                        context.emit_progress(shown_as, &remark).await;
                    }
                }
            }
        };
        open.id = None;
        match answer {
            Ok(ServerResult::CallToolResult(result)) => Ok(result),
            Ok(_) => Err(
                "its answer cannot be read, or asks for something that is not offered".to_owned(),
            ),
            Err(ServiceError::Timeout { timeout }) => Err(format!(
                "it neither answered nor told of progress within {} ms, and was told to stop; what it has done is unknown",
                timeout.as_millis()
            )),
            Err(error) => Err(self.told(error).await),
        }
    }

    async fn told(&self, error: ServiceError) -> String {
        match error {
            ServiceError::McpError(error) => {
                clean(&format!("error {}: {}", error.code.0, error.message))
            }
            ServiceError::TransportClosed => self.end().await,
            _ if self.flood.over().is_some() => self.end().await,
            error => clean(&error.to_string()),
        }
    }
}

/// A call in progress.
struct OpenCall<'a> {
    connection: &'a Connection,
    /// `None` once the answer has arrived.
    id: Option<RequestId>,
    token: ProgressToken,
}

impl Drop for OpenCall<'_> {
    fn drop(&mut self) {
        self.connection.handler.forget(&self.token);
        let (Some(id), Ok(executor)) = (self.id.take(), tokio::runtime::Handle::try_current())
        else {
            return;
        };
        let peer = self.connection.peer.clone();
        executor.spawn(async move {
            let told = CancelledNotificationParam::new(Some(id), None);
            let _ = peer.notify_cancelled(told).await;
        });
    }
}

fn why(error: &ClientInitializeError) -> String {
    clean(&format!("it cannot be greeted: {error}"))
}

/// Returns a server's error message, truncated and escaped.
pub(super) fn clean(text: &str) -> String {
    let text = lines(text);
    match text.char_indices().nth(MAX_ERROR) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.into_owned(),
    }
}

async fn with_complaints(why: &str, complaints: Option<&Output>) -> String {
    let Some(complaints) = complaints else {
        return why.to_owned();
    };
    // The last stderr output arrives when the program has ended.
    let _ = tokio::time::timeout(LAST_WORDS, complaints.closed()).await;
    match complaints.text().0.trim() {
        "" => why.to_owned(),
        said => {
            let mut last: Vec<_> = said.lines().rev().take(5).collect();
            last.reverse();
            clean(&format!("{why}; it said: {}", last.join(" | ")))
        }
    }
}
