//! The network of a command whose environment filters it.

use windlass_core::traits::ToolContext;
use windlass_process::{Confinement, Network, Program};

use super::error::ShellError;
use super::{Shell, ShellSettings};

/// What a command has of the network while it runs.
#[derive(Debug, Default)]
pub(super) struct Filter {
    /// The proxy ends with the call.
    #[cfg(feature = "web")]
    proxy: Option<crate::proxy::RunningProxy>,
    /// Says why there is no network although the environment has a filtered one.
    is_closed: bool,
}

impl Filter {
    fn closed() -> Self {
        Self {
            #[cfg(feature = "web")]
            proxy: None,
            is_closed: true,
        }
    }

    /// Returns what the model should know of the network that its command had.
    pub(super) fn remark(&self) -> Option<String> {
        if self.is_closed {
            let closed = "there is no network: that of this environment is filtered, and this machine's sandbox, landlock, can only close \
                          it; who runs the host can install bubblewrap";
            return Some(closed.to_owned());
        }
        #[cfg(feature = "web")]
        if let Some(proxy) = &self.proxy {
            return proxy.refused();
        }
        None
    }
}

impl Shell {
    /// Gives a command its proxy, where its environment filters the network.
    pub(super) fn filter(
        &self,
        program: &mut Program,
        context: &ToolContext,
    ) -> Result<Filter, ShellError> {
        if program.bounds.network != Network::Filtered {
            return Ok(Filter::default());
        }
        match program.confinement {
            Confinement::Bubblewrap => self.proxied(&self.settings, program, context),
            // Its rules open no sockets, also none to a proxy.
            Confinement::Landlock | Confinement::Unconfined => Ok(Filter::closed()),
        }
    }

    #[cfg(feature = "web")]
    fn proxied(
        &self,
        settings: &ShellSettings,
        program: &mut Program,
        context: &ToolContext,
    ) -> Result<Filter, ShellError> {
        let Some(proxy) = &settings.proxy else {
            return Err(self.no_proxy(context));
        };
        let made = proxy.for_call(context.session_id, context.network_access.clone());
        let (proxied, running) = made.map_err(ShellError::io("make a proxy"))?;
        program.proxied = Some(proxied);
        Ok(Filter {
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
    ) -> Result<Filter, ShellError> {
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
