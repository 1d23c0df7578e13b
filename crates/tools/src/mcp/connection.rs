//! One server that was reached.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
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

/// How many tools a server may offer.
const MAX_TOOLS: usize = 128;
/// On how many pages.
const MAX_PAGES: usize = 32;
/// How many remarks about left out tools are kept.
const MAX_REMARKS: usize = 8;
/// How much of what a server says of a failure is shown.
const MAX_ERROR: usize = 4 * 1024;
/// How long is waited for the last words of a program.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// How often the progress of a call is told at most.
const PROGRESS_PAUSE: Duration = Duration::from_millis(250);
/// How often in all.
const MAX_PROGRESS: usize = 400;

/// What a server offers.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Listed {
    pub(super) tools: Vec<Offered>,
    /// What was left out, and why.
    pub(super) remarks: Vec<String>,
}

struct Kept {
    /// What the server offers, or why that is not known.
    listed: Result<Arc<Listed>, String>,
    at: Instant,
    /// How often the list had changed when it was asked for.
    changes: u64,
}

/// One server that was reached.
pub(super) struct Connection {
    peer: Peer<RoleClient>,
    service: Mutex<Option<RunningService<RoleClient, Arc<Handler>>>>,
    handler: Arc<Handler>,
    flood: Arc<Flood>,
    complaints: Option<Arc<Output>>,
    list: tokio::sync::Mutex<Option<Kept>>,
}

/// How long something may take.
#[derive(Clone, Copy)]
pub(super) struct Times {
    /// Without a word.
    pub(super) silence: Duration,
    /// Whatever is said.
    pub(super) total: Duration,
}

impl Connection {
    /// Greets a server.
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

    /// Says why it is over.
    pub(super) async fn end(&self) -> String {
        let why = self.flood.over();
        let why = why.unwrap_or_else(|| "the connection is closed".to_owned());
        with_complaints(&why, self.complaints.as_deref()).await
    }

    /// Ends it, and waits until its program is gone.
    pub(super) async fn close(&self) {
        let service = {
            self.service
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .take()
        };
        if let Some(service) = service {
            let _ = service.cancel().await;
        }
    }

    /// Returns what the server offers; it is asked again when it said that this changed, or when the list is old. Those who ask at the same time
    /// wait for one answer, and a failure is kept as long as a list. Who offers the same as before gets the very same list.
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

    /// Calls a tool. When the future is dropped, the server is told that nobody waits.
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
                // One over HTTP would be waited for as long as it may take.
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

/// A call that is under way.
struct OpenCall<'a> {
    connection: &'a Connection,
    /// None when the answer is there.
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

/// What a server says of a failure, within bounds.
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
    // What a program says last comes when it has ended.
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
