//! The network of a command in an environment that filters it.

use windlass_core::traits::ToolContext;
use windlass_process::{Confinement, Network, Program};

use super::ShellTool;
use super::error::ShellError;

/// The network of a command while it runs.
#[derive(Debug, Default)]
pub(super) struct NetworkFilter {
    /// Dropping the proxy ends it.
    #[cfg(feature = "web")]
    proxy: Option<crate::proxy::RunningProxy>,
    /// Whether there is no network although the environment has a filtered one.
    is_closed: bool,
}

impl NetworkFilter {
    /// Returns a remark for the model about the network of its command.
    pub(super) fn remark(&self) -> Option<String> {
        if self.is_closed {
            let closed = "there is no network: this environment's network is filtered, and this machine's sandbox, landlock, can only close \
                          it; the operator can install bubblewrap";
            return Some(closed.to_owned());
        }
        #[cfg(feature = "web")]
        if let Some(proxy) = &self.proxy {
            return proxy.refusals();
        }
        None
    }
}

impl ShellTool {
    /// Sets up the proxy of a command, if its environment filters the network.
    pub(super) fn filter(
        &self,
        program: &mut Program,
        context: &ToolContext,
    ) -> Result<NetworkFilter, ShellError> {
        if program.sandbox.bounds.network != Network::Filtered {
            return Ok(NetworkFilter::default());
        }
        if program.sandbox.confinement != Confinement::Bubblewrap {
            // Landlock's rules allow no sockets, not even to a proxy.
            return Ok(NetworkFilter {
                #[cfg(feature = "web")]
                proxy: None,
                is_closed: true,
            });
        }
        #[cfg(feature = "web")]
        if let Some(proxy) = &self.settings.proxy {
            let (proxied, running) = proxy
                .for_call(context.session_id, context.network_access.clone())
                .map_err(ShellError::io("create a proxy"))?;
            program.proxied = Some(proxied);
            return Ok(NetworkFilter {
                proxy: Some(running),
                is_closed: false,
            });
        }
        let at = self.environments.resolve(context.environment.as_ref())?;
        let id = at.id().to_owned();
        Err(ShellError::NoProxy { id })
    }
}
