//! Permission requests of an agent that wait for a decision.

use std::collections::BTreeMap;

use serde_json::Value;
use windlass_core::backend::{BackendEvent, PermissionRequest};

use crate::json::is_large;
use crate::protocol::Step;

/// Maximum number of open requests.
const MAX_OPEN: usize = 64;

/// The open requests, each with the data that its answer needs.
#[derive(Debug)]
pub(crate) struct OpenPermissions<T>(BTreeMap<String, T>);

impl<T> Default for OpenPermissions<T> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<T> OpenPermissions<T> {
    pub(crate) fn any(&self) -> bool {
        !self.0.is_empty()
    }

    /// Returns whether a request can be opened. A request too large to display cannot be decided.
    pub(crate) fn accepts(&self, request: &Value) -> bool {
        self.0.len() < MAX_OPEN && !is_large(request)
    }

    pub(crate) fn open(&mut self, request: PermissionRequest, data: T) -> Step {
        self.0.insert(request.id.clone(), data);
        Step::Event(BackendEvent::Permission(request))
    }

    pub(crate) fn take(&mut self, request_id: &str) -> Option<T> {
        self.0.remove(request_id)
    }

    /// Closes all requests at the end of the turn. Returns their data with the events that report it.
    pub(crate) fn withdraw_all(&mut self) -> impl Iterator<Item = (T, Step)> + use<T> {
        let open = std::mem::take(&mut self.0);
        open.into_iter()
            .map(|(request_id, data)| (data, withdrawn(request_id)))
    }
}

pub(crate) fn withdrawn(request_id: String) -> Step {
    Step::Event(BackendEvent::PermissionWithdrawn { request_id })
}
