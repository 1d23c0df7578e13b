//! A connection to one server.

use std::collections::HashSet;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rmcp::model::{
    CallToolRequest, CallToolRequestParams, CallToolResult, CancelledNotificationParam,
    ClientRequest, JsonObject, ListToolsRequest, PaginatedRequestParams, ProgressToken, RequestId,
    ServerResult,
};
use rmcp::service::{Peer, PeerRequestOptions, RequestHandle, RunningService, ServiceError};
use rmcp::transport::IntoTransport;
use rmcp::{RoleClient, serve_client};
use windlass_core::bounds::{lines, shortened};
use windlass_core::traits::ToolContext;
use windlass_process::Output;

use super::definition::OfferedTool;
use super::handler::NotificationHandler;
use super::rate_limit::RateLimit;
use windlass_core::lock::lock;

/// Maximum number of tools of a server.
const MAX_TOOLS: usize = 128;
/// Maximum number of pages of its list.
const MAX_PAGES: usize = 32;
/// Maximum number of remarks about omitted tools.
const MAX_REMARKS: usize = 8;
/// Maximum number of bytes shown of a server's error message.
const MAX_ERROR: usize = 4 * 1024;
/// How long to wait for the remaining stderr output of a program that ended.
const STDERR_WAIT: Duration = Duration::from_secs(1);
/// Minimum interval between progress reports of a call.
const PROGRESS_PAUSE: Duration = Duration::from_millis(250);
/// Maximum number of progress reports of a call.
const MAX_PROGRESS: usize = 400;

/// The tools of a server.
#[derive(Debug, Default, PartialEq)]
pub(super) struct ToolList {
    pub(super) tools: Vec<OfferedTool>,
    /// Tools that were omitted, with the reasons.
    pub(super) remarks: Vec<String>,
}

struct CachedList {
    /// The tools of the server, or the error of listing them.
    listed: Result<Arc<ToolList>, String>,
    at: Instant,
    /// Value of the change counter when the list was requested.
    changes: u64,
}

/// A connection to one server.
pub(super) struct McpConnection {
    peer: Peer<RoleClient>,
    service: Mutex<Option<RunningService<RoleClient, Arc<NotificationHandler>>>>,
    handler: Arc<NotificationHandler>,
    rate_limit: Arc<RateLimit>,
    stderr: Option<Arc<Output>>,
    list: tokio::sync::Mutex<Option<CachedList>>,
}

/// Time limits of a call.
#[derive(Clone, Copy)]
pub(super) struct CallTimeouts {
    /// Maximum time without a message from the server.
    pub(super) silence: Duration,
    /// Maximum total time, whatever the server sends.
    pub(super) total: Duration,
}

impl McpConnection {
    /// Initializes the protocol with a server.
    pub(super) async fn initialize<T, E, A>(
        transport: T,
        client_name: &str,
        rate_limit: Arc<RateLimit>,
        stderr: Option<Arc<Output>>,
    ) -> Result<Self, String>
    where
        T: IntoTransport<RoleClient, E, A>,
        E: std::error::Error + Send + Sync + 'static,
    {
        let handler = Arc::new(NotificationHandler::new(client_name));
        let service = match serve_client(Arc::clone(&handler), transport).await {
            Ok(service) => service,
            Err(error) => {
                let why = rate_limit
                    .end_reason()
                    .unwrap_or_else(|| clean(&format!("it could not be initialized: {error}")));
                return Err(with_stderr(&why, stderr.as_deref()).await);
            }
        };
        Ok(Self {
            peer: service.peer().clone(),
            service: Mutex::new(Some(service)),
            handler,
            rate_limit,
            stderr,
            list: tokio::sync::Mutex::new(None),
        })
    }

    pub(super) fn is_alive(&self) -> bool {
        !self.peer.is_transport_closed() && self.rate_limit.end_reason().is_none()
    }

    /// Returns why the connection ended.
    pub(super) async fn end(&self) -> String {
        let why = self.rate_limit.end_reason();
        let why = why.unwrap_or_else(|| "the connection is closed".to_owned());
        with_stderr(&why, self.stderr.as_deref()).await
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
        cache_time: Duration,
        timeout: Duration,
    ) -> Result<Arc<ToolList>, String> {
        let began = Instant::now();
        let timed_out = || {
            format!(
                "it did not list its tools within {} ms",
                timeout.as_millis()
            )
        };
        let locked = tokio::time::timeout(timeout, self.list.lock()).await;
        let mut list = locked.map_err(|_| timed_out())?;
        let changes = self.handler.changes.load(Ordering::Acquire);
        if let Some(cached) = &*list
            && cached.changes == changes
            && (cached.at.elapsed() < cache_time || cached.at >= began)
        {
            return cached.listed.clone();
        }
        let before = list.take().and_then(|cached| cached.listed.ok());
        let request = tokio::time::timeout(timeout.saturating_sub(began.elapsed()), async {
            tokio::select! {
                biased;
                listed = self.request_list() => listed,
                () = self.rate_limit.ended() => Err(self.end().await),
            }
        });
        let listed = request.await.unwrap_or_else(|_| Err(timed_out()));
        let listed = listed.map(|listed| match before {
            Some(before) if *before == listed => before,
            _ => Arc::new(listed),
        });
        *list = Some(CachedList {
            listed: listed.clone(),
            at: Instant::now(),
            changes,
        });
        listed
    }

    async fn request_list(&self) -> Result<ToolList, String> {
        let mut listed = ToolList::default();
        let mut cursor = None;
        let mut names = HashSet::new();
        for _ in 0..MAX_PAGES {
            let params = PaginatedRequestParams::default().with_cursor(cursor.take());
            let request = ListToolsRequest {
                params: Some(params),
                ..ListToolsRequest::default()
            };
            let request = ClientRequest::ListToolsRequest(request);
            let page = match self.peer.send_request(request).await {
                Ok(ServerResult::ListToolsResult(page)) => page,
                Ok(_) => return Err("its list of tools is invalid".to_owned()),
                Err(error) => return Err(self.message_of(error).await),
            };
            for raw in &page.tools {
                if listed.tools.len() >= MAX_TOOLS {
                    let remark =
                        format!("it offers more than {MAX_TOOLS} tools; the rest is left out");
                    listed.remarks.push(remark);
                    return Ok(listed);
                }
                let remark = match OfferedTool::new(raw) {
                    Ok(tool) if !names.insert(tool.tool.clone()) => {
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
        times: CallTimeouts,
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
            Err(error) => return Err(self.message_of(error).await),
        };
        let mut open = OpenCall {
            connection: self,
            id: Some(handle.id.clone()),
            token: handle.progress_token.clone(),
        };
        let mut progress = self.handler.listen(handle.progress_token.clone());
        let answer = handle.await_response();
        tokio::pin!(answer);
        let mut reports = 0;
        let mut next = Instant::now();
        let answer = loop {
            tokio::select! {
                biased;
                answer = &mut answer => break answer,
                // Over HTTP, the call would otherwise wait until its time limit.
                () = self.rate_limit.ended() => break Err(ServiceError::TransportClosed),
                Some(remark) = progress.recv() => {
                    if reports < MAX_PROGRESS && Instant::now() >= next {
                        reports += 1;
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
                "its answer is invalid, or requests a feature that this client does not offer"
                    .to_owned(),
            ),
            Err(ServiceError::Timeout { timeout }) => Err(format!(
                "it neither answered nor reported progress within {} ms, and was asked to stop; the outcome is unknown",
                timeout.as_millis()
            )),
            Err(error) => Err(self.message_of(error).await),
        }
    }

    async fn message_of(&self, error: ServiceError) -> String {
        match error {
            ServiceError::McpError(error) => {
                clean(&format!("error {}: {}", error.code.0, error.message))
            }
            ServiceError::TransportClosed => self.end().await,
            _ if self.rate_limit.end_reason().is_some() => self.end().await,
            error => clean(&error.to_string()),
        }
    }
}

/// A call in progress.
struct OpenCall<'a> {
    connection: &'a McpConnection,
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
            let cancelled = CancelledNotificationParam::new(Some(id), None);
            let _ = peer.notify_cancelled(cancelled).await;
        });
    }
}

/// Returns a server's error message, truncated and escaped.
pub(super) fn clean(text: &str) -> String {
    shortened(&lines(text), MAX_ERROR)
}

async fn with_stderr(why: &str, stderr: Option<&Output>) -> String {
    let Some(stderr) = stderr else {
        return why.to_owned();
    };
    // The last stderr output arrives when the program has ended.
    let _ = tokio::time::timeout(STDERR_WAIT, stderr.closed()).await;
    match stderr.text().0.trim() {
        "" => why.to_owned(),
        text => {
            let mut last: Vec<_> = text.lines().rev().take(5).collect();
            last.reverse();
            clean(&format!(
                "{why}; its stderr ends with: {}",
                last.join(" | ")
            ))
        }
    }
}
