//! The proxy of one call: it accepts connections, checks targets and sends refusals.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use url::{Position, Url};
use windlass_core::egress::{EgressError, EgressRequest};
use windlass_core::network_access::{NetworkAccessList, is_private_address};

use super::connection_slots::{CallConnectionSlots, ConnectionPermit};
use super::head::{self, ProxyRefusal, ProxyRequest, RequestKind};
use super::hosts::OpenHosts;
use super::limits::ProxyLimits;
use super::pump::{ByteBudget, CopyError, pump};
use super::refusals::Refusals;
use crate::web::WebEgress;

/// Maximum size of a request's head.
const MAX_HEAD: usize = 16 * 1024;
/// Pause after a system error, such as too many open files.
const ERROR_PAUSE: Duration = Duration::from_millis(50);
/// How many bytes, and for how long, are still read of a refused request: otherwise the client may not see the answer.
const MAX_DISCARDED_BYTES: u64 = 256 * 1024;
const MAX_DISCARD_TIME: Duration = Duration::from_secs(1);

pub(super) struct Proxy {
    egress: WebEgress,
    hosts: Arc<OpenHosts>,
    limits: ProxyLimits,
    slots: CallConnectionSlots,
    list: Option<NetworkAccessList>,
    budget: ByteBudget,
    refusals: Arc<Refusals>,
}

impl Proxy {
    pub(super) fn new(
        egress: WebEgress,
        hosts: Arc<OpenHosts>,
        limits: ProxyLimits,
        slots: CallConnectionSlots,
        list: Option<NetworkAccessList>,
        refusals: Arc<Refusals>,
    ) -> Self {
        Self {
            egress,
            hosts,
            budget: ByteBudget::new(limits.bytes),
            limits,
            slots,
            list,
            refusals,
        }
    }

    /// Acquires a slot for a connection when the call has `open` others, or returns why none is available.
    fn acquire_slot(&self, open: usize) -> Result<ConnectionPermit, String> {
        let count = self.limits.open_connections;
        if open >= count {
            return Err(format!("more than {count} connections at once"));
        }
        self.slots.acquire()
    }

    /// Accepts connections until the limit of the call is reached. Dropping the future ends all connections.
    pub(super) async fn serve(self, listener: std::net::TcpListener) {
        let nonblocking = listener.set_nonblocking(true);
        let listener = match nonblocking.and_then(|()| TcpListener::from_std(listener)) {
            Ok(listener) => listener,
            Err(error) => return tracing::warn!(%error, "a command has no proxy"),
        };
        let proxy = Arc::new(self);
        let mut open = JoinSet::new();
        for _ in 0..proxy.limits.connections {
            let accepted = listener.accept().await;
            while open.try_join_next().is_some() {}
            let Ok((stream, _)) = accepted else {
                sleep(ERROR_PAUSE).await;
                continue;
            };
            match proxy.acquire_slot(open.len()) {
                Err(reason) => {
                    proxy.refusals.record(&reason);
                    // An answer that does not fit into the socket buffer is not worth waiting for.
                    let _ = stream.try_write(&refusal_response(&ProxyRefusal::new(503, reason)));
                }
                Ok(permit) => {
                    let proxy = Arc::clone(&proxy);
                    open.spawn(async move {
                        proxy.handle_connection(stream).await;
                        drop(permit);
                    });
                }
            }
        }
        drop(listener);
        let count = proxy.limits.connections;
        let reason = format!("more than {count} connections of one command");
        proxy.refusals.record(&reason);
        while open.join_next().await.is_some() {}
    }

    async fn handle_connection(&self, mut client: TcpStream) {
        let Err(refusal) = self.handle_request(&mut client).await else {
            return;
        };
        self.refusals.record(&refusal.reason);
        let sent = client.write_all(&refusal_response(&refusal)).await;
        if sent.is_ok() && client.shutdown().await.is_ok() {
            let sink = &mut tokio::io::sink();
            let rest = pump(&mut client, sink, MAX_DISCARDED_BYTES, &self.budget);
            let _ = timeout(MAX_DISCARD_TIME, rest).await;
        }
    }

    async fn handle_request(&self, client: &mut TcpStream) -> Result<(), ProxyRefusal> {
        let slow = || ProxyRefusal::new(408, "the request took too long to name its target");
        let read = timeout(self.limits.start, read_head(client));
        let Some((head, rest)) = read.await.map_err(|_| slow())?? else {
            return Ok(());
        };
        let ProxyRequest { url, kind } = head::parse(&head)?;
        let shown = &url[Position::BeforeHost..Position::AfterPort];
        let late = || ProxyRefusal::new(504, format!("{shown} could not be reached in time"));
        let method = match &kind {
            RequestKind::Tunnel => "CONNECT",
            // The rules distinguish tunnels from requests, but not the methods of requests.
            RequestKind::Request { .. } => "GET",
        };
        let reached = timeout(self.limits.start, self.connect(method, &url));
        let mut server = reached.await.map_err(|_| late())??;
        let result = match kind {
            RequestKind::Tunnel => self.tunnel(client, &mut server, &rest).await,
            RequestKind::Request { head, body } => {
                let sent = rest.len().min(usize::try_from(body).unwrap_or(usize::MAX));
                let rest = &rest[..sent];
                let left = body - u64::try_from(sent).unwrap_or(body);
                self.request(client, &mut server, &[&head, rest], left)
                    .await
            }
        };
        if let Err(CopyError::LimitReached) = result {
            let reason = format!("more than {} bytes of one command", self.limits.bytes);
            self.refusals.record(&reason);
        }
        Ok(())
    }

    /// Connects to the target of a URL, if it is open.
    async fn connect(&self, method: &str, url: &Url) -> Result<TcpStream, ProxyRefusal> {
        let host = url.host_str().unwrap_or_default();
        let port = url.port_or_known_default().unwrap_or_default();
        let shown = format!("{host}:{port}");
        let denied = |why: &str| ProxyRefusal::new(403, format!("{shown} is not open: {why}"));
        if !self.hosts.open(url) {
            return Err(denied(
                "commands can reach only the hosts that the operator opens, on their usual ports (`shell.hosts`)",
            ));
        }
        let request = EgressRequest {
            network_access: self.list.clone(),
            ..EgressRequest::new(method, url.as_str())
        };
        let found = self.egress.addresses(&request, url).await;
        let found = found.map_err(|error| match error {
            EgressError::DeniedAddress { address, .. } if is_private_address(address) => denied(
                "it leads to an address that is not on the public internet; only the operator can allow it",
            ),
            EgressError::Denied { .. } | EgressError::DeniedAddress { .. } => {
                denied("the network rules of the operator or of the session forbid it")
            }
            _ => ProxyRefusal::new(502, format!("{shown} was not found")),
        })?;
        let addresses: Vec<_> = found.iter().map(|ip| SocketAddr::new(*ip, port)).collect();
        let connected = TcpStream::connect(addresses.as_slice()).await;
        connected
            .map_err(|error| ProxyRefusal::new(502, format!("{shown} cannot be reached: {error}")))
    }

    async fn tunnel(
        &self,
        client: &mut TcpStream,
        server: &mut TcpStream,
        rest: &[u8],
    ) -> Result<(), CopyError> {
        client
            .write_all(b"HTTP/1.1 200 Connection established\r\n\r\n")
            .await?;
        self.budget.take(rest.len())?;
        server.write_all(rest).await?;
        let (mut from_client, mut to_client) = client.split();
        let (mut from_server, mut to_server) = server.split();
        let out = async {
            pump(&mut from_client, &mut to_server, u64::MAX, &self.budget).await?;
            Ok(to_server.shutdown().await?)
        };
        let back = async {
            pump(&mut from_server, &mut to_client, u64::MAX, &self.budget).await?;
            Ok(to_client.shutdown().await?)
        };
        tokio::try_join!(out, back).map(|((), ())| ())
    }

    /// Forwards one request with its body, and nothing after it: that would be another request, which was not checked.
    async fn request(
        &self,
        client: &mut TcpStream,
        server: &mut TcpStream,
        beginning: &[&[u8]],
        left: u64,
    ) -> Result<(), CopyError> {
        for piece in beginning {
            self.budget.take(piece.len())?;
            server.write_all(piece).await?;
        }
        let (mut from_client, mut to_client) = client.split();
        let (mut from_server, mut to_server) = server.split();
        let out = pump(&mut from_client, &mut to_server, left, &self.budget);
        let back = async {
            pump(&mut from_server, &mut to_client, u64::MAX, &self.budget).await?;
            Ok(to_client.shutdown().await?)
        };
        // A server may answer before it has read everything.
        tokio::pin!(back);
        tokio::select! {
            sent = out => sent?,
            result = &mut back => return result,
        }
        back.await
    }
}

/// Reads up to the empty line. Returns the bytes before and after it; `None` if the client sent nothing.
async fn read_head(client: &mut TcpStream) -> Result<Option<(Vec<u8>, Vec<u8>)>, ProxyRefusal> {
    const END: &[u8] = b"\r\n\r\n";
    let mut read = Vec::new();
    let mut piece = [0; 4096];
    loop {
        let from = read.len().saturating_sub(END.len());
        let count = client.read(&mut piece).await.unwrap_or(0);
        if count == 0 && read.is_empty() {
            return Ok(None);
        }
        if count == 0 {
            return Err(ProxyRefusal::new(400, "the request ended in its head"));
        }
        read.extend_from_slice(&piece[..count]);
        let found = read[from..].windows(END.len()).position(|it| it == END);
        if let Some(at) = found.map(|at| from + at) {
            let rest = read.split_off(at + END.len());
            read.truncate(at);
            return Ok(Some((read, rest)));
        }
        if read.len() > MAX_HEAD {
            return Err(ProxyRefusal::new(
                431,
                "the head of the request is too large",
            ));
        }
    }
}

/// Returns the HTTP response for a refused request.
fn refusal_response(refusal: &ProxyRefusal) -> Vec<u8> {
    let ProxyRefusal { status, reason } = refusal;
    let name = match status {
        400 => "Bad Request",
        403 => "Forbidden",
        408 => "Request Timeout",
        411 => "Length Required",
        431 => "Request Header Fields Too Large",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        _ => "Gateway Timeout",
    };
    let length = reason.len() + 1;
    let text = format!(
        "HTTP/1.1 {status} {name}\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: {length}\r\n\
         connection: close\r\nx-refused: {reason}\r\n\r\n{reason}\n"
    );
    text.into_bytes()
}
