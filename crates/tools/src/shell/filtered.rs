//! The network of a command in an environment that filters it.

use windlass_core::traits::ToolContext;
use windlass_process::{Confinement, Network, Program};

use super::error::ShellError;
use super::{ShellSettings, ShellTool};

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
    fn closed() -> Self {
        Self {
            #[cfg(feature = "web")]
            proxy: None,
            is_closed: true,
        }
    }

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
        match program.sandbox.confinement {
            Confinement::Bubblewrap => self.proxied(&self.settings, program, context),
            // Landlock's rules allow no sockets, not even to a proxy.
            Confinement::Landlock | Confinement::Unconfined => Ok(NetworkFilter::closed()),
        }
    }

    #[cfg(feature = "web")]
    fn proxied(
        &self,
        settings: &ShellSettings,
        program: &mut Program,
        context: &ToolContext,
    ) -> Result<NetworkFilter, ShellError> {
        let Some(proxy) = &settings.proxy else {
            return Err(self.no_proxy(context));
        };
        let made = proxy.for_call(context.session_id, context.network_access.clone());
        let (proxied, running) = made.map_err(ShellError::io("make a proxy"))?;
        program.proxied = Some(proxied);
        Ok(NetworkFilter {
            proxy: Some(running),
            is_closed: false,
        })
    }

    #[cfg(not(feature = "web"))]
    fn proxied(
        &self,
        _settings: &ShellSettings,
        _program: &mut Program,
        context: &ToolContext,
    ) -> Result<NetworkFilter, ShellError> {
        Err(self.no_proxy(context))
    }

    fn no_proxy(&self, context: &ToolContext) -> ShellError {
        match self.environments.resolve(context.environment.as_ref()) {
            Ok(at) => ShellError::NoProxy {
                id: at.id().to_owned(),
            },
            Err(error) => error.into(),
        }
    }
}
