//! Which routes there are and who may call each. A route cannot be added without saying that.

use std::collections::BTreeMap;

use axum::Router;
use axum::handler::Handler;
use axum::http::Method;
use axum::routing::{MethodFilter, on};

use crate::app::Shared;
use crate::service::rules::MayCall;

/// Who may call what, by path and method.
pub(crate) type Table = BTreeMap<&'static str, BTreeMap<String, MayCall>>;

/// Routes on their way into a router.
#[derive(Default)]
pub(super) struct Routes {
    router: Router<Shared>,
    table: Table,
}

impl Routes {
    /// Adds a route, and who may call it.
    pub(super) fn add<H, T>(
        mut self,
        method: &Method,
        path: &'static str,
        may_call: MayCall,
        handler: H,
    ) -> Self
    where
        H: Handler<T, Shared>,
        T: 'static,
    {
        let filter = MethodFilter::try_from(method.clone()).unwrap_or(MethodFilter::GET);
        self.router = self.router.route(path, on(filter, handler));
        let methods = self.table.entry(path).or_default();
        methods.insert(method.to_string(), may_call);
        self
    }

    pub(super) fn get<H, T>(self, path: &'static str, may_call: MayCall, handler: H) -> Self
    where
        H: Handler<T, Shared>,
        T: 'static,
    {
        self.add(&Method::GET, path, may_call, handler)
    }

    pub(super) fn post<H, T>(self, path: &'static str, may_call: MayCall, handler: H) -> Self
    where
        H: Handler<T, Shared>,
        T: 'static,
    {
        self.add(&Method::POST, path, may_call, handler)
    }

    pub(super) fn finish(self) -> (Router<Shared>, Table) {
        (self.router, self.table)
    }
}

/// Finds out who may call a path by a method. A path without an entry is for the admin alone; a method that the path does not
/// have is refused by the router, to whomever.
pub(crate) fn may_call(table: &Table, path: &str, method: &Method) -> MayCall {
    let Some(methods) = table.get(path) else {
        return MayCall::Admin;
    };
    let method = match *method {
        Method::HEAD => "GET",
        ref method => method.as_str(),
    };
    methods.get(method).copied().unwrap_or(MayCall::Agent)
}
