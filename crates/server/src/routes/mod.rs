//! A handler for each operation of the contract. Most are derived from the form of the response; those with a transport of their own
//! have a file here.

#[cfg(feature = "console")]
mod console;
mod detail;
mod events;
mod respond;
mod table;

use axum::Router;
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use tower_http::catch_panic::CatchPanicLayer;
use windlass_protocol::ErrorCode;
use windlass_protocol::operations::{self as op, Endpoint};
use windlass_service::ApiError;

use crate::app::SharedApp;
use crate::error::{HttpRefusal, Result};
use crate::http::{auth, cors, detach, idempotency, request};

pub(crate) use respond::NEXT_CURSOR;
pub(crate) use table::required_scope;
use table::route;

/// Result of a handler.
type HandlerResult<T = Response> = Result<T, HttpRefusal>;

/// The handler of an operation.
macro_rules! handler {
    (GetThread $form:ident) => {
        detail::thread
    };
    (GetThreadState $form:ident) => {
        detail::state
    };
    (GetTurn $form:ident) => {
        detail::turn
    };
    (ListTasks $form:ident) => {
        respond::tasks
    };
    (StreamEvents $form:ident) => {
        events::of_thread
    };
    (StreamFleetEvents $form:ident) => {
        events::of_fleet_run
    };
    (StreamOneTurn $form:ident) => {
        events::of_one_turn
    };
    ($name:ident Json) => {
        respond::json::<op::$name>
    };
    ($name:ident List) => {
        respond::list::<op::$name, _>
    };
    ($name:ident Lines) => {
        respond::lines::<op::$name>
    };
    ($name:ident Text) => {
        respond::text::<op::$name>
    };
    ($name:ident Empty) => {
        respond::empty::<op::$name>
    };
}

macro_rules! routes {
    ($($name:ident $function:ident $form:ident;)*) => {
        fn routes() -> Router<SharedApp> {
            Router::new()
                $(.route(op::$name::OPERATION.path, route::<op::$name, _, _>(handler!($name $form))))*
        }
    };
}

windlass_protocol::for_each_operation!(routes);

/// Builds the router with the layers that every request passes.
pub(crate) fn router(app: &SharedApp) -> Router {
    // The last layer runs first.
    let router = routes()
        .fallback(unknown_path)
        .method_not_allowed_fallback(wrong_method)
        .layer(from_fn_with_state(
            SharedApp::clone(app),
            idempotency::check,
        ))
        .layer(from_fn_with_state(SharedApp::clone(app), auth::check));
    // Pages contain no data, so they need no token.
    #[cfg(feature = "console")]
    let router = router.merge(console::router());
    router
        .layer(CatchPanicLayer::custom(panicked))
        .layer(cors::layer(&app.service.settings))
        .layer(from_fn_with_state(SharedApp::clone(app), request::enter))
        .layer(from_fn_with_state(SharedApp::clone(app), detach::detach))
        .with_state(SharedApp::clone(app))
}

async fn unknown_path() -> HttpRefusal {
    let text = "there is no such route";
    HttpRefusal(ApiError::new(ErrorCode::UnknownPath, text))
}

async fn wrong_method() -> HttpRefusal {
    let text = "the route does not serve this method";
    HttpRefusal(ApiError::new(ErrorCode::MethodNotAllowed, text))
}

fn panicked(panic: Box<dyn std::any::Any + Send>) -> Response {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    HttpRefusal(ApiError::internal(
        text.unwrap_or("a panic without a message"),
    ))
    .into_response()
}
