//! Connects the operations of the contract to their handlers.

use std::collections::HashMap;
use std::sync::LazyLock;

use axum::handler::Handler;
use axum::http::Method;
use axum::routing::{MethodFilter, MethodRouter, on};
use windlass_protocol::operations::{self, Endpoint, OPERATIONS, Operation, RequiredScope};

use crate::app::SharedApp;

/// Returns the route of an operation for its handler.
pub(super) fn route<E, H, T>(handler: H) -> MethodRouter<SharedApp>
where
    E: Endpoint,
    H: Handler<T, SharedApp>,
    T: 'static,
{
    let filter = match E::OPERATION.method {
        operations::Method::Get => MethodFilter::GET,
        operations::Method::Post => MethodFilter::POST,
        operations::Method::Put => MethodFilter::PUT,
        operations::Method::Patch => MethodFilter::PATCH,
        operations::Method::Delete => MethodFilter::DELETE,
    };
    on(filter, handler)
}

static BY_PATH: LazyLock<HashMap<&str, Vec<&Operation>>> = LazyLock::new(|| {
    let mut by_path: HashMap<_, Vec<_>> = HashMap::new();
    for operation in OPERATIONS {
        by_path.entry(operation.path).or_default().push(operation);
    }
    by_path
});

/// Returns the scope that a call requires. An unknown path requires admin; the router rejects an unsupported method regardless of scope.
pub(crate) fn required_scope(path: &str, method: &Method) -> RequiredScope {
    let method = match *method {
        Method::HEAD => "GET",
        ref method => method.as_str(),
    };
    let Some(of_path) = BY_PATH.get(path) else {
        return RequiredScope::Admin;
    };
    let mut of_method = of_path.iter().filter(|it| it.method.as_str() == method);
    of_method.next().map_or(RequiredScope::Agent, |it| it.scope)
}
