//! The API as an OpenAPI 3.1 document. Schemas come from the wire types, routes from the table below.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde_json::{Map, Value, json};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};
use windlass_protocol as wire;

use super::{Answer, ok};

static DOCUMENT: LazyLock<Value> = LazyLock::new(document);

pub(super) async fn openapi() -> Answer {
    ok(&*DOCUMENT)
}

/// What a route answers.
enum ResponseKind {
    One(&'static str),
    Many(&'static str),
    Events,
    Lines,
    Text,
    Nothing,
}

/// A method and a path, what they do, the body that they take, and the status and body of a success.
#[rustfmt::skip]
struct Route(&'static str, &'static str, &'static str, Option<&'static str>, u16, ResponseKind);

use ResponseKind::{Events, Lines, Many, Nothing, One, Text};

#[rustfmt::skip]
const ROUTES: &[Route] = &[
    Route("get", "/health", "Tells that the daemon is there", None, 200, One("Health")),
    Route("get", "/ready", "Tells whether the daemon takes requests", None, 200, One("Ready")),
    Route("get", "/metrics", "Returns figures for Prometheus", None, 200, Text),
    Route("get", "/v1/runtime/info", "Tells what the daemon can do", None, 200, One("RuntimeInfo")),
    Route("get", "/v1/threads", "Lists threads, last updated first", None, 200, Many("Thread")),
    Route("post", "/v1/threads", "Makes a thread", Some("CreateThread"), 201, One("Thread")),
    Route("get", "/v1/threads/summary", "Lists threads, one line each", None, 200, Many("ThreadSummary")),
    Route("get", "/v1/threads/{id}", "Returns a whole thread", None, 200, One("ThreadDetail")),
    Route("patch", "/v1/threads/{id}", "Changes a thread", Some("PatchThread"), 200, One("Thread")),
    Route("delete", "/v1/threads/{id}", "Removes a thread and all that is recorded of it", None, 204, Nothing),
    Route("get", "/v1/threads/{id}/export", "Writes a thread, then each of its events, one a line", None, 200, Lines),
    Route("post", "/v1/threads/{id}/resume", "Looks a thread up to go on with it", None, 200, One("Thread")),
    Route("post", "/v1/threads/{id}/fork", "Makes a thread that begins with this one", Some("ForkThread"), 201, One("Thread")),
    Route("post", "/v1/threads/{id}/undo", "Makes a thread without the last turns", Some("UndoThread"), 201, One("UndoneThread")),
    Route("post", "/v1/threads/{id}/retry", "Makes a thread without the last turns and starts another", Some("RetryThread"), 201, One("ThreadAndTurn")),
    Route("post", "/v1/threads/{id}/compact", "Makes the history shorter", Some("CompactThread"), 202, One("ThreadAndTurn")),
    Route("get", "/v1/threads/{id}/events", "Streams the events of a thread", None, 200, Events),
    Route("post", "/v1/threads/{id}/turns", "Starts a turn", Some("StartTurn"), 201, One("ThreadAndTurn")),
    Route("get", "/v1/threads/{id}/turns/{turn_id}", "Returns a turn", None, 200, One("TurnDetail")),
    Route("post", "/v1/threads/{id}/turns/{turn_id}/steer", "Says something to a running turn", Some("SteerTurn"), 200, One("Turn")),
    Route("post", "/v1/threads/{id}/turns/{turn_id}/interrupt", "Stops a turn", None, 200, One("Turn")),
    Route("post", "/v1/threads/{id}/turns/{turn_id}/tool-calls/{call_id}/result", "Answers a call that a client carries out", Some("DynamicToolCallResult"), 202, Nothing),
    Route("post", "/v1/approvals/{approval_id}", "Allows or refuses a call", Some("DecideApproval"), 200, One("ApprovalAnswered")),
    Route("post", "/v1/user-input/{thread_id}/{input_id}", "Answers a question", Some("UserInputAnswers"), 200, One("UserInputAnswered")),
    Route("post", "/v1/stream", "Runs one turn of an archived thread and streams it", Some("OneShot"), 200, Events),
    Route("get", "/v1/usage", "Sums what turns used", None, 200, One("UsageReport")),
    Route("get", "/v1/environments", "Lists environments", None, 200, One("EnvironmentList")),
    Route("post", "/v1/environments", "Makes an environment", Some("CreateEnvironment"), 201, One("Environment")),
    Route("get", "/v1/environments/{id}", "Returns an environment", None, 200, One("Environment")),
    Route("delete", "/v1/environments/{id}", "Removes an environment", None, 204, Nothing),
    Route("get", "/v1/workspace/status", "Tells the state of the daemon's directory", None, 200, One("WorkspaceStatus")),
];

/// The parameters of queries: path, name, type.
const QUERIES: &[(&str, &str, &str)] = &[
    ("/v1/threads", "limit", "integer"),
    ("/v1/threads", "include_archived", "boolean"),
    ("/v1/threads", "archived_only", "boolean"),
    ("/v1/threads", "state", "string"),
    ("/v1/threads", "cursor", "string"),
    ("/v1/threads/summary", "limit", "integer"),
    ("/v1/threads/summary", "search", "string"),
    ("/v1/threads/summary", "include_archived", "boolean"),
    ("/v1/threads/summary", "archived_only", "boolean"),
    ("/v1/threads/summary", "state", "string"),
    ("/v1/threads/summary", "cursor", "string"),
    ("/v1/threads/{id}", "turns", "integer"),
    ("/v1/threads/{id}/events", "since_seq", "integer"),
    ("/v1/threads/{id}/events", "replay_limit", "integer"),
    ("/v1/threads/{id}/events", "include", "string"),
    ("/v1/threads/{id}/export", "since_seq", "integer"),
    ("/v1/threads/{id}/export", "include", "string"),
    ("/v1/usage", "since", "string"),
    ("/v1/usage", "until", "string"),
    ("/v1/usage", "group_by", "string"),
];

/// Bodies in which nothing is required may be left out.
const OPTIONAL: &[&str] = &[
    "CreateThread",
    "ForkThread",
    "UndoThread",
    "RetryThread",
    "CompactThread",
];

fn document() -> Value {
    let mut paths: BTreeMap<&str, Map<String, Value>> = BTreeMap::new();
    for route @ Route(method, path, ..) in ROUTES {
        let operations = paths.entry(path).or_default();
        operations.insert((*method).to_owned(), operation(route));
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Windlass Runtime API",
            "version": wire::RUNTIME_API_VERSION,
            "license": { "name": "MIT OR Apache-2.0" },
        },
        "security": [{ "token": [] }],
        "paths": paths,
        "components": {
            "securitySchemes": { "token": { "type": "http", "scheme": "bearer" } },
            "schemas": schemas(),
        },
    })
}

fn named(name: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{name}") })
}

fn operation(route: &Route) -> Value {
    let Route(method, path, what, takes, status, gives) = route;
    let content = |media: &str, schema: Value| json!({ media: { "schema": schema } });
    let (media, schema) = match gives {
        One(name) => ("application/json", Some(named(name))),
        Many(name) => (
            "application/json",
            Some(json!({ "type": "array", "items": named(name) })),
        ),
        Events => ("text/event-stream", Some(json!({ "type": "string" }))),
        Lines => ("application/x-ndjson", Some(json!({ "type": "string" }))),
        Text => ("text/plain", Some(json!({ "type": "string" }))),
        Nothing => ("", None),
    };
    let mut success = json!({ "description": what });
    if let Some(schema) = schema {
        success["content"] = content(media, schema);
    }
    let mut operation = json!({
        "summary": what,
        "responses": {
            status.to_string(): success,
            "default": {
                "description": "The request was refused",
                "content": content("application/json", named("ErrorBody")),
            },
        },
    });
    let parameters = parameters(method, path);
    if !parameters.is_empty() {
        operation["parameters"] = parameters.into();
    }
    if let Some(name) = takes {
        operation["requestBody"] = json!({
            "required": !OPTIONAL.contains(name),
            "content": content("application/json", named(name)),
        });
    }
    operation
}

fn parameters(method: &str, path: &str) -> Vec<Value> {
    let in_path = path.split('/').filter_map(|part| {
        let name = part.strip_prefix('{')?.strip_suffix('}')?;
        Some(json!({
            "name": name, "in": "path", "required": true,
            "schema": { "type": "string", "pattern": "^[A-Za-z0-9_-]+$" },
        }))
    });
    let in_query = QUERIES
        .iter()
        .filter(|(of, ..)| method == "get" && *of == path)
        .map(|(_, name, kind)| {
            let mut schema = json!({ "type": kind });
            if *kind == "integer" {
                schema["minimum"] = 0.into();
            }
            json!({ "name": name, "in": "query", "schema": schema })
        });
    in_path.chain(in_query).collect()
}

fn schemas() -> BTreeMap<String, RefOr<Schema>> {
    let mut all = BTreeMap::new();
    add::<wire::ErrorBody>(&mut all);
    add::<wire::Health>(&mut all);
    add::<wire::info::Ready>(&mut all);
    add::<wire::RuntimeInfo>(&mut all);
    add::<wire::ThreadDetail>(&mut all);
    add::<wire::ThreadSummary>(&mut all);
    add::<wire::CreateThread>(&mut all);
    add::<wire::PatchThread>(&mut all);
    add::<wire::ForkThread>(&mut all);
    add::<wire::UndoThread>(&mut all);
    add::<wire::UndoneThread>(&mut all);
    add::<wire::RetryThread>(&mut all);
    add::<wire::CompactThread>(&mut all);
    add::<wire::ThreadAndTurn>(&mut all);
    add::<wire::StartTurn>(&mut all);
    add::<wire::SteerTurn>(&mut all);
    add::<wire::TurnDetail>(&mut all);
    add::<wire::DynamicToolCallResult>(&mut all);
    add::<wire::DecideApproval>(&mut all);
    add::<wire::ApprovalAnswered>(&mut all);
    add::<wire::UserInputAnswers>(&mut all);
    add::<wire::UserInputAnswered>(&mut all);
    add::<wire::stream::OneShot>(&mut all);
    add::<wire::UsageReport>(&mut all);
    add::<wire::EnvironmentList>(&mut all);
    add::<wire::CreateEnvironment>(&mut all);
    add::<wire::WorkspaceStatus>(&mut all);
    add::<wire::RuntimeEventEnvelope>(&mut all);
    all
}

fn add<T: ToSchema + PartialSchema>(all: &mut BTreeMap<String, RefOr<Schema>>) {
    let mut parts = Vec::new();
    T::schemas(&mut parts);
    parts.push((T::name().into_owned(), T::schema()));
    all.extend(parts);
}
