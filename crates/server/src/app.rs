//! What all requests share.

use std::sync::Arc;

use windlass_service::Service;

use crate::http::answers::LargeAnswers;
use crate::visitors::Lobby;

/// What all requests share.
pub(crate) struct App {
    pub(crate) service: Service,
    /// Answers that are written while they are read.
    pub(crate) large_answers: LargeAnswers,
    /// Connections that have not shown who they are, and those of them that became sockets.
    pub(crate) lobby: Lobby,
    pub(crate) socket_lobby: Lobby,
}

impl App {
    pub(crate) fn new(service: Service) -> Self {
        Self {
            service,
            large_answers: LargeAnswers::default(),
            lobby: Lobby::default(),
            socket_lobby: Lobby::default(),
        }
    }
}

pub(crate) type Shared = Arc<App>;
