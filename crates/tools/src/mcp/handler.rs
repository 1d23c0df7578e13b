//! What servers say by themselves.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use rmcp::model::{
    ClientCapabilities, ClientConfig, Implementation, ProgressNotificationParam, ProgressToken,
};
use rmcp::service::NotificationContext;
use rmcp::{ClientHandler, RoleClient};
use tokio::sync::mpsc;
use windlass_core::bounds::one_line;

/// How many letters of a remark are shown.
const MAX_REMARK: usize = 500;

/// Listens to what a server says by itself: that its list of tools changed, and how far its calls are. It may ask for nothing.
pub(super) struct Handler {
    name: String,
    /// How often the list of tools has changed.
    pub(super) changes: AtomicU64,
    /// Who wants to hear how far a call is.
    listeners: Mutex<HashMap<ProgressToken, mpsc::Sender<String>>>,
}

impl Handler {
    pub(super) fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            changes: AtomicU64::new(0),
            listeners: Mutex::default(),
        }
    }

    /// Hands over how far a call is. Who does not keep up misses some of it.
    pub(super) fn listen(&self, token: ProgressToken) -> mpsc::Receiver<String> {
        let (send, told) = mpsc::channel(4);
        let mut listeners = self
            .listeners
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        listeners.insert(token, send);
        told
    }

    pub(super) fn forget(&self, token: &ProgressToken) {
        let mut listeners = self
            .listeners
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        listeners.remove(token);
    }
}

impl ClientHandler for Handler {
    fn get_info(&self) -> ClientConfig {
        let version = env!("CARGO_PKG_VERSION");
        let me = Implementation::new(self.name.clone(), version);
        ClientConfig::new(ClientCapabilities::default(), me)
    }

    async fn on_progress(
        &self,
        told: ProgressNotificationParam,
        _context: NotificationContext<RoleClient>,
    ) {
        let listeners = self
            .listeners
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(listener) = listeners.get(&told.progress_token) {
            let _ = listener.try_send(remark(&told));
        }
    }

    async fn on_tool_list_changed(&self, _context: NotificationContext<RoleClient>) {
        self.changes.fetch_add(1, Ordering::AcqRel);
    }
}

fn remark(told: &ProgressNotificationParam) -> String {
    let far = match told.total {
        Some(total) => format!("{} of {total}", told.progress),
        None => told.progress.to_string(),
    };
    let message = told.message.as_deref().unwrap_or_default();
    let message: String = one_line(message).chars().take(MAX_REMARK).collect();
    match message.as_str() {
        "" => far,
        message => format!("{far}: {message}"),
    }
}
