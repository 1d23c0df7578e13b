//! Notifications of servers.

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use rmcp::model::{
    ClientCapabilities, ClientConfig, Implementation, ProgressNotificationParam, ProgressToken,
};
use rmcp::service::NotificationContext;
use rmcp::{ClientHandler, RoleClient};
use tokio::sync::mpsc;
use windlass_core::bounds::one_line;

use windlass_core::lock::lock;

/// Maximum number of characters shown of a progress message.
const MAX_REMARK: usize = 500;

/// Handles notifications of a server: changes of its tool list, and the progress of calls. Requests of the server are refused.
pub(super) struct NotificationHandler {
    name: String,
    /// Number of notified changes of the tool list.
    pub(super) changes: AtomicU64,
    /// Receivers of the progress of calls.
    listeners: Mutex<HashMap<ProgressToken, mpsc::Sender<String>>>,
}

impl NotificationHandler {
    pub(super) fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            changes: AtomicU64::new(0),
            listeners: Mutex::default(),
        }
    }

    /// Returns the progress messages of a call. A slow receiver misses some of them.
    pub(super) fn listen(&self, token: ProgressToken) -> mpsc::Receiver<String> {
        let (sender, receiver) = mpsc::channel(4);
        lock(&self.listeners).insert(token, sender);
        receiver
    }

    pub(super) fn forget(&self, token: &ProgressToken) {
        lock(&self.listeners).remove(token);
    }
}

impl ClientHandler for NotificationHandler {
    fn get_info(&self) -> ClientConfig {
        let version = env!("CARGO_PKG_VERSION");
        let me = Implementation::new(self.name.clone(), version);
        ClientConfig::new(ClientCapabilities::default(), me)
    }

    async fn on_progress(
        &self,
        progress: ProgressNotificationParam,
        _context: NotificationContext<RoleClient>,
    ) {
        let listeners = lock(&self.listeners);
        if let Some(listener) = listeners.get(&progress.progress_token) {
            let _ = listener.try_send(remark(&progress));
        }
    }

    async fn on_tool_list_changed(&self, _context: NotificationContext<RoleClient>) {
        self.changes.fetch_add(1, Ordering::AcqRel);
    }
}

fn remark(progress: &ProgressNotificationParam) -> String {
    let position = match progress.total {
        Some(total) => format!("{} of {total}", progress.progress),
        None => progress.progress.to_string(),
    };
    let message = progress.message.as_deref().unwrap_or_default();
    let message: String = one_line(message).chars().take(MAX_REMARK).collect();
    match message.as_str() {
        "" => position,
        message => format!("{position}: {message}"),
    }
}
