//! Listening, serving and graceful shutdown.

use std::convert::Infallible;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use axum::http::{Request, Response};
use axum::response::IntoResponse;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio_util::task::TaskTracker;
use tower::ServiceExt;
use windlass_runtime::InProcessRuntime;
use windlass_service::rpc::Rpc;
use windlass_service::{
    Access, ApiCaller, ApiError, InProcess, OpenError, Service, Settings, WireStore,
};

use crate::app::{App, SharedApp};
use crate::error::HttpRefusal;
use crate::http::host;
use crate::http::outflow::Outflow;
use crate::http::stall::Stalling;
use crate::pending_connections::{Kind, PendingConnection};
use crate::unix_socket::UnixSocket;
use crate::{routes, rpc};

/// Backlog of connections; the kernel may allow fewer (`net.core.somaxconn`).
const BACKLOG: u32 = 1024;
/// Time limit after the last tool for recording that turns are released.
const RELEASE_TIME: Duration = Duration::from_secs(5);
/// Delay before the next accept after a failed one.
const ACCEPT_DELAY: Duration = Duration::from_millis(50);
/// Time limit for writing the refusal to a connection over the limit.
const REFUSAL_TIME: Duration = Duration::from_secs(1);
/// Minimum interval between log messages about failed accepts.
const LOG_INTERVAL: Duration = Duration::from_secs(60);

/// Why a server cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The address cannot be listened on.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The requested address.
        address: String,
        /// Error of the system call.
        source: std::io::Error,
    },
    /// Other machines could connect without a token.
    #[error("refusing to listen on {0} without a token; only a loopback address may be open")]
    OpenToOtherMachines(String),
    /// The Unix socket cannot be listened on.
    #[error("cannot listen on the Unix socket {path}: {source}")]
    UnixSocket {
        /// Path of the socket.
        path: String,
        /// Error of the system call.
        source: std::io::Error,
    },
    /// The service cannot be opened.
    #[error(transparent)]
    Service(#[from] OpenError),
}

/// Binds a port; 0 selects a free one.
pub async fn listen(host: &str, port: u16) -> Result<TcpListener, StartError> {
    let listener = bind_first(host.trim_matches(['[', ']']), port).await;
    listener.map_err(|source| StartError::Listen {
        address: format!("{host}:{port}"),
        source,
    })
}

/// Binds the first address of a host that can be bound. `TcpListener::bind` would set a backlog of 128, and connections
/// beyond it are reset when many clients connect at once.
async fn bind_first(host: &str, port: u16) -> std::io::Result<TcpListener> {
    let mut failure = std::io::ErrorKind::AddrNotAvailable.into();
    for address in tokio::net::lookup_host((host, port)).await? {
        match bind(address) {
            Ok(listener) => return Ok(listener),
            Err(error) => failure = error,
        }
    }
    Err(failure)
}

fn bind(address: SocketAddr) -> std::io::Result<TcpListener> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => TcpSocket::new_v6()?,
    };
    #[cfg(unix)]
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// A server that is bound and ready to run.
pub struct ApiServer {
    app: SharedApp,
    rpc: Rpc,
    listener: Option<TcpListener>,
    sockets: Vec<UnixSocket>,
    in_process: InProcessHandle,
    resumed_turns: usize,
}

/// Access for the process that the server runs in, without a port or a socket file.
#[derive(Clone)]
pub struct InProcessHandle {
    app: SharedApp,
    router: Router,
    connections: TaskTracker,
    /// Connections of other processes over Unix sockets.
    unix_connections: TaskTracker,
}

impl std::fmt::Debug for InProcessHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("InProcessHandle").finish_non_exhaustive()
    }
}

impl InProcessHandle {
    /// Returns the API for this process, with the operator's rights.
    #[must_use]
    pub fn api(&self) -> InProcess {
        InProcess::new(self.app.service.clone(), ApiCaller::operator())
    }

    /// Returns whether a turn is running that another process may have requested over a Unix socket.
    pub async fn serves_other_processes(&self) -> bool {
        if self.unix_connections.is_empty() {
            return false;
        }
        self.app.service.has_running_turn().await
    }

    /// Waits until there is no such turn and no such connection. Connections that only read do not count.
    pub async fn other_processes_served(&self) {
        self.unix_connections.close();
        let mut records = self.app.service.watch_records();
        while self.serves_other_processes().await {
            // The end of a turn is a record.
            tokio::select! {
                () = self.unix_connections.wait() => {}
                changed = records.changed() => {
                    if changed.is_err() {
                        return;
                    }
                }
            }
        }
    }

    fn serve<S>(&self, stream: S, transport: Transport)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let (app, router) = (SharedApp::clone(&self.app), self.router.clone());
        let serving = connection(app, router, stream, transport);
        match transport {
            Transport::UnixSocket => self
                .connections
                .spawn(self.unix_connections.track_future(serving)),
            Transport::Port => self.connections.spawn(serving),
        };
    }
}

impl std::fmt::Debug for ApiServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ApiServer")
            .field("address", &self.address())
            .finish_non_exhaustive()
    }
}

impl ApiServer {
    /// Binds the port. Recorded threads are available without being loaded, and their open turns resume.
    pub async fn bind(
        runtime: InProcessRuntime,
        settings: Settings,
        store: Arc<dyn WireStore>,
    ) -> Result<Self, StartError> {
        let listener = listen(&settings.host, settings.port).await?;
        Box::pin(Self::on(listener, runtime, settings, store)).await
    }

    /// Serves on a port that is already bound. Clients that connect meanwhile wait, so a host can bind the port first and start its runtime
    /// afterwards.
    pub async fn on(
        listener: TcpListener,
        runtime: InProcessRuntime,
        settings: Settings,
        store: Arc<dyn WireStore>,
    ) -> Result<Self, StartError> {
        Self::start(Some(listener), runtime, settings, store).await
    }

    /// Serves without a port: on the Unix sockets of the settings, and [in this process](Self::in_process).
    pub async fn without_port(
        runtime: InProcessRuntime,
        settings: Settings,
        store: Arc<dyn WireStore>,
    ) -> Result<Self, StartError> {
        Self::start(None, runtime, settings, store).await
    }

    async fn start(
        listener: Option<TcpListener>,
        runtime: InProcessRuntime,
        mut settings: Settings,
        store: Arc<dyn WireStore>,
    ) -> Result<Self, StartError> {
        let address = listener.as_ref().map(TcpListener::local_addr).transpose();
        let address = address.map_err(|source| StartError::Listen {
            address: settings.host.clone(),
            source,
        })?;
        if let Some(address) = address.filter(|address| !address.ip().is_loopback())
            && matches!(settings.access, Access::Open)
        {
            return Err(StartError::OpenToOtherMachines(address.to_string()));
        }
        settings.port = address.map_or(0, |address| address.port());
        let service = Service::open(runtime, settings, store).await?;
        let app = Arc::new(App::new(service));
        let rpc = Rpc::open(&app.service).await?;
        let router = routes::router(&app).merge(rpc::router(&app, &rpc));
        let sockets = app.service.settings.unix_sockets.iter();
        let sockets = sockets
            .map(|path| UnixSocket::bind(path))
            .collect::<Result<_, _>>()?;
        // Last, because a start that fails after it would count as a crash of every resumed turn.
        let resumed_turns = app.service.resume_open_turns().await?;
        let in_process = InProcessHandle {
            app: SharedApp::clone(&app),
            router,
            connections: TaskTracker::new(),
            unix_connections: TaskTracker::new(),
        };
        Ok(Self {
            rpc,
            app,
            listener,
            sockets,
            in_process,
            resumed_turns,
        })
    }

    /// Returns the bound address with its actual port, if there is one.
    #[must_use]
    pub fn address(&self) -> Option<SocketAddr> {
        self.listener.as_ref()?.local_addr().ok()
    }

    /// Returns the address of the web console; `None` if no browser could log in there.
    #[must_use]
    pub fn console_url(&self) -> Option<String> {
        self.app.service.settings.console_url()
    }

    /// Returns the model of threads whose clients name none, as `provider/model`.
    #[must_use]
    pub fn default_model(&self) -> String {
        self.app.service.default_model()
    }

    /// Returns how many turns of a previous process resume, without those that were ended at startup.
    #[must_use]
    pub fn resumed_turns(&self) -> usize {
        self.resumed_turns
    }

    /// Returns in-process access. Requests are served once the server [runs](Self::run).
    #[must_use]
    pub fn in_process(&self) -> InProcessHandle {
        self.in_process.clone()
    }

    /// Serves until `stop` is ready. Then it stops accepting, notifies streams, and gives requests in progress a grace period. Turns are recorded
    /// step by step and resume at the next start.
    pub async fn run(self, stop: impl Future<Output = ()>) {
        let connections = &self.in_process.connections;
        self.rpc.supervise_runs();
        for socket in self.sockets {
            connections.spawn(serve_unix(self.in_process.clone(), socket));
        }
        let jobs = self.app.service.start_loops();
        let mut stop = std::pin::pin!(stop);
        let mut failures = AcceptFailures::default();
        loop {
            let accepted = tokio::select! {
                () = &mut stop => break,
                accepted = accept(self.listener.as_ref()) => accepted,
            };
            match accepted {
                Ok(stream) => {
                    let _ = stream.set_nodelay(true);
                    self.in_process.serve(stream, Transport::Port);
                }
                Err(error) => failures.wait(&error).await,
            }
        }
        drop(self.listener);
        self.app.service.stopping.cancel();
        connections.close();
        self.app.service.detached_tasks.close();
        let grace = self.app.service.settings.grace;
        let ended = async {
            tokio::join!(
                connections.wait(),
                self.app.service.detached_tasks.wait(),
                jobs
            )
        };
        // Running tools finish and are recorded; no new step starts. Turns resume at the next start. Their release is recorded after the last tool,
        // so it gets additional time; otherwise this stop would count as a crash of them.
        let released = self.app.service.release_turns(grace);
        let (ended, released) = tokio::join!(
            tokio::time::timeout(grace, ended),
            tokio::time::timeout(grace + RELEASE_TIME, released)
        );
        if ended.is_err() {
            tracing::warn!("connections were closed because they did not end in time");
        }
        if released.is_err() {
            tracing::warn!("turns were not released in time; their stop counts as a crash");
        }
    }
}

/// Accepts the next connection; pending forever without a port.
async fn accept(listener: Option<&TcpListener>) -> std::io::Result<TcpStream> {
    match listener {
        Some(listener) => Ok(listener.accept().await?.0),
        None => std::future::pending().await,
    }
}

/// Serves on a Unix socket until the server stops.
async fn serve_unix(in_process: InProcessHandle, socket: UnixSocket) {
    let mut failures = AcceptFailures::default();
    loop {
        let accepted = tokio::select! {
            () = in_process.app.service.stopping.cancelled() => break,
            accepted = socket.accept() => accepted,
        };
        match accepted {
            Ok(stream) => in_process.serve(stream, Transport::UnixSocket),
            Err(error) => failures.wait(&error).await,
        }
    }
}

/// Failed accepts, most likely because file descriptors are exhausted. The next accept follows after a delay in which other connections may close;
/// the log reports it once a minute.
#[derive(Default)]
struct AcceptFailures {
    logged_at: Option<Instant>,
}

impl AcceptFailures {
    async fn wait(&mut self, error: &std::io::Error) {
        if self.logged_at.is_none_or(|at| at.elapsed() > LOG_INTERVAL) {
            self.logged_at = Some(Instant::now());
            tracing::warn!(%error, "connections cannot be accepted; more file descriptors may help (ulimit -n)");
        }
        tokio::time::sleep(ACCEPT_DELAY).await;
    }
}

/// The listener that accepted a connection.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Transport {
    Port,
    /// Not reachable by web pages, so the `Host` header is not checked.
    UnixSocket,
}

async fn connection<S>(app: SharedApp, router: Router, stream: S, transport: Transport)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let limits = &app.service.settings.limits;
    let pending = PendingConnection::enter(&app, Kind::Http);
    let outflow = Outflow::default();
    let service = service_fn(|mut request: Request<Incoming>| {
        let router = router.clone();
        let refusal = match (&pending, transport) {
            (Err(full), _) => Some(full.clone()),
            (Ok(_), Transport::Port) => {
                host::check(&app.service.settings, request.method(), request.headers()).err()
            }
            (Ok(_), Transport::UnixSocket) => None,
        };
        if let Ok(pending) = &pending {
            request.extensions_mut().insert(Arc::clone(pending));
        }
        request.extensions_mut().insert(outflow.clone());
        async move { Ok::<_, Infallible>(answer(router, refusal, request).await) }
    });
    // A connection over the limit occupies a descriptor that others need.
    let header_time = match &pending {
        Ok(_) => limits.header_time,
        Err(_) => limits.header_time.min(REFUSAL_TIME),
    };
    let io = TokioIo::new(Stalling::new(stream, limits.stall_time, outflow.clone()));
    let serving = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(header_time)
        .serve_connection(io, service)
        .with_upgrades();
    let mut serving = std::pin::pin!(serving);
    let dismissed = async {
        match &pending {
            Ok(pending) => pending.dismissed().await,
            Err(_) => std::future::pending().await,
        }
    };
    let ended = tokio::select! {
        ended = serving.as_mut() => ended,
        () = dismissed => {
            // A request in progress gets its response; closing the connection would reset it.
            serving.as_mut().graceful_shutdown();
            match tokio::time::timeout(REFUSAL_TIME, serving).await {
                Ok(ended) => ended,
                Err(_) => return,
            }
        }
        () = app.service.stopping.cancelled() => {
            serving.as_mut().graceful_shutdown();
            serving.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection ended with an error");
    }
}

async fn answer(
    router: Router,
    refusal: Option<ApiError>,
    request: Request<Incoming>,
) -> Response<Body> {
    if let Some(refusal) = refusal {
        let mut response = HttpRefusal(refusal).into_response();
        let close = axum::http::HeaderValue::from_static("close");
        response.headers_mut().insert("connection", close);
        return response;
    }
    match router.oneshot(request.map(Body::new)).await {
        Ok(response) => response,
        Err(never) => match never {},
    }
}
