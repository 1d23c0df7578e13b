//! State shared by all requests.

use std::sync::Arc;

use windlass_service::Service;

use crate::http::answers::LargeAnswers;
use crate::pending_connections::PendingConnections;

/// State shared by all requests.
pub(crate) struct App {
    pub(crate) service: Service,
    /// Responses that are produced while they are read.
    pub(crate) large_answers: LargeAnswers,
    /// Unauthenticated connections, including those upgraded to WebSockets.
    pub(crate) pending_connections: PendingConnections,
    pub(crate) pending_sockets: PendingConnections,
    #[cfg(feature = "console")]
    pub(crate) console: windlass_console::Console,
}

impl App {
    pub(crate) fn new(service: Service) -> Self {
        Self {
            service,
            large_answers: LargeAnswers::default(),
            pending_connections: PendingConnections::default(),
            pending_sockets: PendingConnections::default(),
            #[cfg(feature = "console")]
            console: windlass_console::Console::default(),
        }
    }
}

pub(crate) type SharedApp = Arc<App>;
