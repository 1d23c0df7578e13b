//! The network of commands in an environment whose policy filters it: one proxy of the host per call, which lets commands reach the hosts that the
//! operator opens.

mod connection_slots;
mod head;
mod hosts;
mod limits;
mod pump;
mod refusals;
mod serve;

use std::io;
use std::net::TcpListener;
use std::sync::Arc;

use tokio::io::Interest;
use tokio::net::UnixStream;
use tokio::task::AbortHandle;
use windlass_core::network_access::NetworkAccessList;
use windlass_core::setters;
use windlass_core::typed_id::SessionId;
use windlass_process::{InnerListener, Launcher, Proxied};

pub use hosts::OpenHosts;
pub use limits::ProxyLimits;

use crate::web::WebEgress;
use connection_slots::ConnectionSlots;
use refusals::Refusals;
use serve::Proxy;

/// The filtered network of commands.
///
/// A command has a private network that contains only a proxy. Through it, the command can reach hosts that the operator opens and the rules of its
/// session allow. The [`WebEgress`] resolves and checks their addresses; names cannot be resolved inside the sandbox.
#[derive(Debug, Clone)]
pub struct ShellProxy {
    egress: WebEgress,
    hosts: Arc<OpenHosts>,
    launcher: Launcher,
    limits: ProxyLimits,
    slots: ConnectionSlots,
}

/// Default limit of open connections of all calls together; each needs two file descriptors of the host.
const OPEN_CONNECTIONS: usize = 256;

impl ShellProxy {
    /// Opens hosts for commands. The launcher is a program of the host that calls [`become_proxied`](windlass_process::become_proxied).
    #[must_use]
    pub fn new(egress: WebEgress, hosts: OpenHosts, launcher: Launcher) -> Self {
        Self {
            egress,
            hosts: Arc::new(hosts),
            launcher,
            limits: ProxyLimits::default(),
            slots: ConnectionSlots::new(OPEN_CONNECTIONS),
        }
    }

    setters! {
        /// Sets the limit of open connections of all calls together; the default is 256. The calls of one session can use a quarter of it. Further
        /// connections get a 503.
        with_open_connections(usize) |builder, count| builder.slots = ConnectionSlots::new(count);
        /// Sets the network limits of one call.
        with_limits(ProxyLimits) |builder, limits| builder.limits = limits;
    }

    /// Creates the proxy of one call, which starts when the sandbox sends its listener.
    pub(crate) fn for_call(
        &self,
        session_id: SessionId,
        list: Option<NetworkAccessList>,
    ) -> io::Result<(Proxied, RunningProxy)> {
        let (proxied, inner) = Proxied::new(self.launcher.clone())?;
        let channel = inner.into_channel();
        channel.set_nonblocking(true)?;
        let channel = UnixStream::from_std(channel)?;
        let (proxy, refusals) = self.proxy(Some(session_id), list);
        let task = tokio::spawn(async move {
            let arrived = channel.async_io(Interest::READABLE, || InnerListener::receive(&channel));
            let arrived = arrived.await;
            // No further messages follow.
            drop(channel);
            match arrived {
                Ok(Some(listener)) => proxy.serve(listener).await,
                // The command did not start, which is reported elsewhere.
                Ok(None) => {}
                Err(error) => tracing::warn!(%error, "a command has no proxy"),
            }
        });
        Ok((
            proxied,
            RunningProxy {
                task: task.abort_handle(),
                refusals,
            },
        ))
    }

    /// Serves on a listener, with the limits of one call and of all calls of its session, if it has one; for hosts with their own sandbox.
    #[must_use]
    pub fn serve(
        &self,
        session_id: Option<SessionId>,
        listener: TcpListener,
        list: Option<NetworkAccessList>,
    ) -> RunningProxy {
        let (proxy, refusals) = self.proxy(session_id, list);
        let task = tokio::spawn(async move { proxy.serve(listener).await });
        RunningProxy {
            task: task.abort_handle(),
            refusals,
        }
    }

    fn proxy(
        &self,
        session_id: Option<SessionId>,
        list: Option<NetworkAccessList>,
    ) -> (Proxy, Arc<Refusals>) {
        let refusals = Arc::new(Refusals::default());
        let proxy = Proxy::new(
            self.egress.clone(),
            Arc::clone(&self.hosts),
            self.limits,
            self.slots.for_call(session_id),
            list,
            Arc::clone(&refusals),
        );
        (proxy, refusals)
    }
}

/// The proxy of one call. Dropping it ends it and all its connections.
#[derive(Debug)]
pub struct RunningProxy {
    task: AbortHandle,
    refusals: Arc<Refusals>,
}

impl RunningProxy {
    /// Returns the refused requests with the reasons; `None` if there were none.
    #[must_use]
    pub fn refusals(&self) -> Option<String> {
        self.refusals.text()
    }
}

impl Drop for RunningProxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}
