//! The API as an OpenAPI 3.1 document. Schemas come from the wire types, routes from the table below.

mod events;

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
    /// One or the other, by the query.
    Either(&'static str, &'static str),
    Many(&'static str),
    Frames(&'static str),
    Lines(&'static str),
    Text,
    Nothing,
}

/// A method and a path, the name of both, what they do, the body that they take, and the status and body of a success.
#[rustfmt::skip]
struct Route(&'static str, &'static str, &'static str, &'static str, Option<&'static str>, u16, ResponseKind);

use ResponseKind::{Either, Frames, Lines, Many, Nothing, One, Text};

#[rustfmt::skip]
const ROUTES: &[Route] = &[
    Route("get", "/health", "getHealth", "Tells that the daemon is there", None, 200, One("Health")),
    Route("get", "/ready", "getReady", "Tells whether the daemon takes requests", None, 200, One("Ready")),
    Route("get", "/metrics", "getMetrics", "Returns figures for Prometheus", None, 200, Text),
    Route("get", "/v1/runtime/info", "getRuntimeInfo", "Tells what the daemon can do", None, 200, One("RuntimeInfo")),
    Route("get", "/v1/threads", "listThreads", "Lists threads, last updated first", None, 200, Many("Thread")),
    Route("post", "/v1/threads", "createThread", "Makes a thread", Some("CreateThread"), 201, One("Thread")),
    Route("get", "/v1/threads/summary", "summarizeThreads", "Lists threads, one line each", None, 200, Many("ThreadSummary")),
    Route("get", "/v1/threads/{id}", "getThread", "Returns a whole thread", None, 200, One("ThreadDetail")),
    Route("patch", "/v1/threads/{id}", "patchThread", "Changes a thread", Some("PatchThread"), 200, One("Thread")),
    Route("delete", "/v1/threads/{id}", "deleteThread", "Removes a thread and all that is recorded of it", None, 204, Nothing),
    Route("get", "/v1/threads/{id}/context", "getThreadContext", "Estimates how much of the model's window the next model call takes", None, 200, One("ContextUsage")),
    Route("get", "/v1/threads/{id}/export", "exportThread", "Writes a thread, then each of its events, one a line", None, 200, Lines("`{\"thread\": Thread}`, then a `RuntimeEvent` a line. Of a fork the first line also has `shared`: the `turns` and `items` that it shares with its parent, unless `since_seq` is behind them.")),
    Route("post", "/v1/threads/{id}/resume", "resumeThread", "Looks a thread up to go on with it", None, 200, One("Thread")),
    Route("post", "/v1/threads/{id}/fork", "forkThread", "Makes a thread that begins with this one", Some("ForkThread"), 201, One("Thread")),
    Route("post", "/v1/threads/{id}/undo", "undoThread", "Makes a thread without the last turns", Some("UndoThread"), 201, One("UndoneThread")),
    Route("post", "/v1/threads/{id}/patch-undo", "patchUndoThread", "Makes a thread without the last turns and brings their files back: undo with `files`", Some("UndoThread"), 201, One("PatchUndone")),
    Route("post", "/v1/threads/{id}/retry", "retryThread", "Makes a thread without the last turns and starts another", Some("RetryThread"), 201, One("ThreadAndTurn")),
    Route("post", "/v1/threads/{id}/compact", "compactThread", "Makes the history shorter", Some("CompactThread"), 202, One("ThreadAndTurn")),
    Route("post", "/v1/threads/{id}/replay", "replayThread", "Decides what is recorded again, and tells the first difference", Some("ReplayThread"), 200, One("ReplayedThread")),
    Route("get", "/v1/threads/{id}/events", "streamEvents", "Streams the events of a thread", None, 200, Frames("The `data` of each frame is a `RuntimeEvent`.")),
    Route("post", "/v1/threads/{id}/turns", "startTurn", "Starts a turn", Some("StartTurn"), 201, One("ThreadAndTurn")),
    Route("get", "/v1/threads/{id}/turns/{turn_id}", "getTurn", "Returns a turn", None, 200, One("TurnDetail")),
    Route("post", "/v1/threads/{id}/turns/{turn_id}/steer", "steerTurn", "Says something to a running turn", Some("SteerTurn"), 200, One("Turn")),
    Route("post", "/v1/threads/{id}/turns/{turn_id}/interrupt", "interruptTurn", "Stops a turn", None, 200, One("Turn")),
    Route("post", "/v1/threads/{id}/turns/{turn_id}/tool-calls/{call_id}/result", "submitToolResult", "Answers a call that a client carries out", Some("DynamicToolCallResult"), 202, Nothing),
    Route("get", "/v1/sessions", "listSessions", "Lists saved sessions", None, 200, One("SessionList")),
    Route("post", "/v1/sessions", "saveSession", "Saves a thread as a session: a named place in its record", Some("SaveSession"), 201, One("SavedSession")),
    Route("put", "/v1/sessions", "updateSession", "Saves a thread over a session", Some("UpdateSession"), 200, One("UpdatedSession")),
    Route("get", "/v1/sessions/summary", "summarizeSessions", "Lists saved sessions, one line each", None, 200, Many("SessionLine")),
    Route("get", "/v1/sessions/{id}", "getSession", "Returns a saved session", None, 200, Either("SessionDetail", "SessionPeek")),
    Route("patch", "/v1/sessions/{id}", "patchSession", "Names or archives a saved session", Some("PatchSession"), 200, One("PatchedSession")),
    Route("delete", "/v1/sessions/{id}", "deleteSession", "Removes a saved session; its thread stays", None, 204, Nothing),
    Route("get", "/v1/sessions/{id}/context", "getSessionContext", "Estimates how much of the model's window a thread takes that begins with the session", None, 200, One("ContextUsage")),
    Route("post", "/v1/sessions/{id}/resume-thread", "resumeSession", "Makes a thread that begins with a saved session", Some("ResumeSession"), 201, One("ResumedSession")),
    Route("get", "/v1/snapshots", "listSnapshots", "Lists turns that changed files, newest first", None, 200, Many("Snapshot")),
    Route("post", "/v1/snapshots/{id}/restore", "restoreSnapshot", "Brings files back to where they were before a turn; the conversation stays", None, 200, One("RestoredSnapshot")),
    Route("post", "/v1/approvals/{approval_id}", "decideApproval", "Allows or refuses a call", Some("DecideApproval"), 200, One("ApprovalAnswered")),
    Route("post", "/v1/user-input/{thread_id}/{input_id}", "answerUserInput", "Answers a question", Some("UserInputAnswers"), 200, One("UserInputAnswered")),
    Route("post", "/v1/stream", "streamOneTurn", "Runs one turn of an archived thread and streams it", Some("OneShot"), 200, Frames("Frames with names of their own, from `turn.started` to `done`.")),
    Route("get", "/v1/tasks", "listTasks", "Lists tasks, newest first", None, 200, One("TaskList")),
    Route("post", "/v1/tasks", "createTask", "Queues a task", Some("CreateTask"), 201, One("TaskRecord")),
    Route("get", "/v1/tasks/{id}", "getTask", "Returns a task", None, 200, One("TaskRecord")),
    Route("post", "/v1/tasks/{id}/cancel", "cancelTask", "Calls a task off; one that runs ends when its turn has", None, 200, One("TaskRecord")),
    Route("get", "/v1/automations", "listAutomations", "Lists automations, newest first", None, 200, Many("AutomationRecord")),
    Route("post", "/v1/automations", "createAutomation", "Makes an automation", Some("CreateAutomation"), 201, One("AutomationRecord")),
    Route("get", "/v1/automations/{id}", "getAutomation", "Returns an automation", None, 200, One("AutomationRecord")),
    Route("patch", "/v1/automations/{id}", "patchAutomation", "Changes an automation", Some("PatchAutomation"), 200, One("AutomationRecord")),
    Route("delete", "/v1/automations/{id}", "deleteAutomation", "Removes an automation; what is queued goes on", None, 200, One("AutomationRecord")),
    Route("post", "/v1/automations/{id}/run", "runAutomation", "Runs an automation now", None, 200, One("AutomationRunRecord")),
    Route("post", "/v1/automations/{id}/pause", "pauseAutomation", "Lets an automation run by itself no more", None, 200, One("AutomationRecord")),
    Route("post", "/v1/automations/{id}/resume", "resumeAutomation", "Lets an automation run by itself again", None, 200, One("AutomationRecord")),
    Route("get", "/v1/automations/{id}/runs", "listAutomationRuns", "Lists the runs of an automation, newest first", None, 200, Many("AutomationRunRecord")),
    Route("get", "/v1/usage", "getUsage", "Sums what turns used", None, 200, One("UsageReport")),
    Route("get", "/v1/environments", "listEnvironments", "Lists environments", None, 200, One("EnvironmentList")),
    Route("post", "/v1/environments", "createEnvironment", "Makes an environment", Some("CreateEnvironment"), 201, One("Environment")),
    Route("get", "/v1/environments/{id}", "getEnvironment", "Returns an environment", None, 200, One("Environment")),
    Route("delete", "/v1/environments/{id}", "deleteEnvironment", "Removes an environment", None, 204, Nothing),
    Route("get", "/v1/fleet/runs", "listFleetRuns", "Lists runs of the fleet, newest first", None, 200, One("FleetRunList")),
    Route("post", "/v1/fleet/runs", "createFleetRun", "Makes a run: many tasks over workers that are threads", Some("CreateFleetRun"), 201, One("CreatedFleetRun")),
    Route("get", "/v1/fleet/runs/{run_id}", "getFleetRun", "Returns a run with what it was asked to do", None, 200, One("FleetRunDetail")),
    Route("post", "/v1/fleet/runs/{run_id}/start", "startFleetRun", "Starts a run that waits for it", None, 202, One("StartedFleetRun")),
    Route("post", "/v1/fleet/runs/{run_id}/stop", "stopFleetRun", "Stops a run: what waits is cancelled, what runs is interrupted", None, 200, One("StoppedFleetRun")),
    Route("get", "/v1/fleet/runs/{run_id}/workers", "listFleetWorkers", "Returns the workers of a run", None, 200, One("FleetWorkerList")),
    Route("get", "/v1/fleet/runs/{run_id}/events", "streamFleetEvents", "Streams what happens to a run, to its end", None, 200, Frames("The `data` of each frame is a `FleetRunEvent`.")),
    Route("get", "/v1/fleet/runs/{run_id}/events/replay", "replayFleetEvents", "Returns what happened to a run", None, 200, One("FleetEventReplay")),
    Route("get", "/v1/fleet/workers/{worker_id}", "getFleetWorker", "Returns a worker", None, 200, One("FleetWorker")),
    Route("post", "/v1/fleet/workers/{worker_id}/interrupt", "interruptFleetWorker", "Cancels the task that a worker has; the worker takes another", None, 200, One("FleetWorkerTold")),
    Route("post", "/v1/fleet/workers/{worker_id}/stop", "stopFleetWorker", "The same as interrupt", None, 200, One("FleetWorkerTold")),
    Route("post", "/v1/fleet/workers/{worker_id}/restart", "restartFleetWorker", "Begins the task that a worker has anew, on the same thread", None, 200, One("FleetWorkerTold")),
    Route("post", "/v1/threads/{id}/agent-runs/{agent_id}/cancel", "cancelAgentRun", "Stops the running turn of an agent that works for the thread", None, 200, One("AgentRun")),
    Route("post", "/v1/threads/{id}/agent-runs/nudge", "nudgeAgentRuns", "Reminds the running turn of agents that still run", Some("NudgeAgentRuns"), 200, One("NudgedAgentRuns")),
    Route("get", "/v1/agent-runs", "listAgentRuns", "Lists agents that models started, newest first", None, 200, One("AgentRunList")),
    Route("get", "/v1/agent-runs/{run_id}", "getAgentRun", "Returns an agent that a model started", None, 200, One("AgentRun")),
    Route("get", "/v1/config", "getConfig", "Tells what the daemon is set to", None, 200, One("RuntimeConfig")),
    Route("post", "/v1/config", "setConfig", "Sets what threads get whose clients say nothing", Some("SetConfig"), 200, One("ConfigSet")),
    Route("post", "/v1/config/reload", "reloadConfig", "Reads the configuration file again", None, 200, One("ConfigReloaded")),
    Route("get", "/v1/models", "listModels", "Lists the models of the current provider", None, 200, One("ModelList")),
    Route("get", "/v1/providers", "listProviders", "Lists the providers of models", None, 200, One("ProviderList")),
    Route("get", "/v1/providers/{id}/models", "listProviderModels", "Lists the models of a provider that are configured", None, 200, One("ProviderModelList")),
    Route("post", "/v1/providers/{id}/switch", "switchProvider", "Asks another provider when no model is named", Some("SwitchProvider"), 200, One("SwitchedProvider")),
    Route("get", "/v1/skills", "listSkills", "Lists the skills of the workspace", None, 200, One("SkillList")),
    Route("post", "/v1/skills/{name}", "switchSkill", "Says whether models are told of a skill", Some("SwitchSkill"), 200, One("SwitchedSkill")),
    Route("get", "/v1/apps/mcp/servers", "listMcpServers", "Lists the MCP servers of the operator", None, 200, One("McpServerList")),
    Route("get", "/v1/apps/mcp/tools", "listMcpTools", "Lists the tools of MCP servers", None, 200, One("McpToolList")),
    Route("get", "/v1/workspace/status", "getWorkspaceStatus", "Tells the state of the daemon's directory", None, 200, One("WorkspaceStatus")),
];

/// The parameters of queries: path, name, type, meaning.
#[rustfmt::skip]
const QUERIES: &[(&str, &str, &str, &str)] = &[
    ("/v1/threads", "limit", "integer", "How many at most."),
    ("/v1/threads", "include_archived", "boolean", ARCHIVED),
    ("/v1/threads", "archived_only", "boolean", ARCHIVED_ONLY),
    ("/v1/threads", "state", "string", STATE),
    ("/v1/threads", "cursor", "string", CURSOR),
    ("/v1/threads/summary", "limit", "integer", "How many at most: 1 to 1000, 50 when nobody says."),
    ("/v1/threads/summary", "search", "string", "Only those that have these words."),
    ("/v1/threads/summary", "git", "boolean", "`false` asks git nothing, which is quicker."),
    ("/v1/threads/summary", "include_archived", "boolean", ARCHIVED),
    ("/v1/threads/summary", "archived_only", "boolean", ARCHIVED_ONLY),
    ("/v1/threads/summary", "state", "string", STATE),
    ("/v1/threads/summary", "cursor", "string", CURSOR),
    ("/v1/threads/{id}", "turns", "integer", "Only so many turns, the newest."),
    ("/v1/threads/{id}/events", "since_seq", "integer", SINCE),
    ("/v1/threads/{id}/events", "replay_limit", "integer", "Of the events that are recorded already, only so many, the newest; at most 4096."),
    ("/v1/threads/{id}/events", "include", "string", INCLUDE),
    ("/v1/threads/{id}/export", "since_seq", "integer", SINCE),
    ("/v1/threads/{id}/export", "include", "string", INCLUDE),
    ("/v1/sessions", "limit", "integer", "How many at most: 1 to 1000, 50 when nobody says."),
    ("/v1/sessions", "search", "string", "Only those that have these words in title, id, directory or model."),
    ("/v1/sessions", "include_archived", "boolean", ARCHIVED),
    ("/v1/sessions", "archived_only", "boolean", ARCHIVED_ONLY),
    ("/v1/sessions", "workspace", "string", "Only those of this directory."),
    ("/v1/sessions", "sort", "string", "`recent`, `name` or `size`; `recent` when nobody says."),
    ("/v1/sessions/summary", "limit", "integer", "How many at most: 1 to 1000, 50 when nobody says."),
    ("/v1/sessions/summary", "search", "string", "Only those that have these words in title, id, directory or model."),
    ("/v1/sessions/summary", "include_archived", "boolean", ARCHIVED),
    ("/v1/sessions/summary", "archived_only", "boolean", ARCHIVED_ONLY),
    ("/v1/sessions/summary", "workspace", "string", "Only those of this directory."),
    ("/v1/sessions/summary", "sort", "string", "`recent`, `name` or `size`; `recent` when nobody says."),
    ("/v1/sessions/{id}", "peek", "boolean", "Only the beginnings of the last messages."),
    ("/v1/sessions/{id}", "entries", "integer", "With `peek`, how many at most: 1 to 12, 12 when nobody says."),
    ("/v1/snapshots", "limit", "integer", "How many at most: 1 to 100, 20 when nobody says."),
    ("/v1/fleet/runs", "limit", "integer", "How many at most: 1 to 100, 50 when nobody says."),
    ("/v1/fleet/runs", "before", "string", "Only runs that are older than the one with this id."),
    ("/v1/fleet/runs/{run_id}/events", "after", "string", AFTER),
    ("/v1/fleet/runs/{run_id}/events", "limit", "integer", "How many are read at once: 1 to 1000, 250 when nobody says."),
    ("/v1/fleet/runs/{run_id}/events/replay", "after", "string", AFTER),
    ("/v1/fleet/runs/{run_id}/events/replay", "limit", "integer", "How many at most: 1 to 1000, 250 when nobody says."),
    ("/v1/agent-runs", "limit", "integer", "How many at most: 1 to 200, 50 when nobody says."),
    ("/v1/agent-runs", "parent", "string", "Only those that work for this thread."),
    ("/v1/tasks", "limit", "integer", "How many at most: 1 to 500, 50 when nobody says."),
    ("/v1/tasks", "status", "string", "Only those that are `queued`, `running`, `completed`, `failed` or `canceled`; one or more with commas between."),
    ("/v1/tasks", "cursor", "string", CURSOR),
    ("/v1/automations/{id}/runs", "limit", "integer", "How many at most: 1 to 500, 50 when nobody says."),
    ("/v1/apps/mcp/tools", "server", "string", "Only those of this server."),
    ("/v1/apps/mcp/tools", "connect", "boolean", "`true` starts and reaches servers first; otherwise only those count that somebody is connected to."),
    ("/v1/usage", "since", "string", "Only turns that ended then or later: a time as in RFC 3339."),
    ("/v1/usage", "until", "string", "Only turns that ended before: a time as in RFC 3339."),
    ("/v1/usage", "group_by", "string", "`day`, `model`, `provider` or `thread`; `day` when nobody says."),
];

const ARCHIVED: &str = "Those that are archived too.";
const ARCHIVED_ONLY: &str = "Only those that are archived.";
const STATE: &str =
    "What the threads may be doing: `idle`, `running`, `waiting`, one or more with commas between.";
const CURSOR: &str = "Where to go on: the header `x-windlass-next-cursor` of the page before.";
const SINCE: &str = "Only events behind this number.";
const AFTER: &str = "Only events behind the one with this cursor.";
const INCLUDE: &str = "Events that are shown on request, with commas between: `tool_output` for what tools print while they run.";

/// Bodies in which nothing is required may be left out.
const OPTIONAL: &[&str] = &[
    "CreateThread",
    "ForkThread",
    "UndoThread",
    "RetryThread",
    "CompactThread",
    "ReplayThread",
    "ResumeSession",
    "SwitchProvider",
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
    let Route(method, path, id, what, takes, status, gives) = route;
    let content = |media: &str, schema: Value| json!({ media: { "schema": schema } });
    let (media, schema) = match gives {
        One(name) => ("application/json", Some(named(name))),
        Either(one, other) => (
            "application/json",
            Some(json!({ "oneOf": [named(one), named(other)] })),
        ),
        Many(name) => (
            "application/json",
            Some(json!({ "type": "array", "items": named(name) })),
        ),
        Frames(what) => (
            "text/event-stream",
            Some(json!({ "type": "string", "description": what })),
        ),
        Lines(what) => (
            "application/x-ndjson",
            Some(json!({ "type": "string", "description": what })),
        ),
        Text => ("text/plain", Some(json!({ "type": "string" }))),
        Nothing => ("", None),
    };
    let mut success = json!({ "description": what });
    if let Some(schema) = schema {
        success["content"] = content(media, schema);
    }
    let mut operation = json!({
        "operationId": id,
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
        .map(|(_, name, kind, meaning)| {
            let mut schema = json!({ "type": kind });
            if *kind == "integer" {
                schema["minimum"] = 0.into();
            }
            json!({ "name": name, "in": "query", "schema": schema, "description": meaning })
        });
    in_path
        .chain(in_query)
        .chain(header(method, path))
        .collect()
}

/// The header that a request may have beside the token.
fn header(method: &str, path: &str) -> Option<Value> {
    match (method, path) {
        ("post", "/v1/stream") => None,
        ("post", _) => Some(json!({
            "name": "Idempotency-Key", "in": "header",
            "schema": { "type": "string", "minLength": 1, "maxLength": 255 },
            "description": "Names the request, so that it can be sent again: the same key and body give the first answer.",
        })),
        (_, "/v1/threads/{id}/events") => Some(json!({
            "name": "Last-Event-ID", "in": "header",
            "schema": { "type": "integer", "minimum": 0 },
            "description": "The number of the last event that is known, as browsers send it; it counts before `since_seq`.",
        })),
        _ => None,
    }
}

fn schemas() -> BTreeMap<String, Value> {
    let mut all = BTreeMap::new();
    add::<wire::ApprovalDecision>(&mut all);
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
    add::<wire::PatchUndone>(&mut all);
    add::<wire::RetryThread>(&mut all);
    add::<wire::CompactThread>(&mut all);
    add::<wire::ReplayThread>(&mut all);
    add::<wire::ReplayedThread>(&mut all);
    add::<wire::ThreadAndTurn>(&mut all);
    add::<wire::StartTurn>(&mut all);
    add::<wire::SteerTurn>(&mut all);
    add::<wire::TurnDetail>(&mut all);
    add::<wire::DynamicToolCallResult>(&mut all);
    add::<wire::DecideApproval>(&mut all);
    add::<wire::ApprovalAnswered>(&mut all);
    add::<wire::UserInputAnswers>(&mut all);
    add::<wire::UserInputAnswered>(&mut all);
    add::<wire::SessionList>(&mut all);
    add::<wire::SessionLine>(&mut all);
    add::<wire::SaveSession>(&mut all);
    add::<wire::SavedSession>(&mut all);
    add::<wire::UpdateSession>(&mut all);
    add::<wire::UpdatedSession>(&mut all);
    add::<wire::SessionDetail>(&mut all);
    add::<wire::SessionPeek>(&mut all);
    add::<wire::PatchSession>(&mut all);
    add::<wire::PatchedSession>(&mut all);
    add::<wire::ResumeSession>(&mut all);
    add::<wire::ResumedSession>(&mut all);
    add::<wire::workspace::Snapshot>(&mut all);
    add::<wire::workspace::RestoredSnapshot>(&mut all);
    add::<wire::CreateTask>(&mut all);
    add::<wire::TaskList>(&mut all);
    add::<wire::TaskRecord>(&mut all);
    add::<wire::CreateAutomation>(&mut all);
    add::<wire::PatchAutomation>(&mut all);
    add::<wire::AutomationRecord>(&mut all);
    add::<wire::AutomationRunRecord>(&mut all);
    add::<wire::stream::OneShot>(&mut all);
    add::<wire::UsageReport>(&mut all);
    add::<wire::EnvironmentList>(&mut all);
    add::<wire::CreateEnvironment>(&mut all);
    add::<wire::config::RuntimeConfig>(&mut all);
    add::<wire::config::SetConfig>(&mut all);
    add::<wire::config::ConfigSet>(&mut all);
    add::<wire::config::ConfigReloaded>(&mut all);
    add::<wire::config::ProviderList>(&mut all);
    add::<wire::config::ProviderModelList>(&mut all);
    add::<wire::config::SwitchProvider>(&mut all);
    add::<wire::config::SwitchedProvider>(&mut all);
    add::<wire::apps::SkillList>(&mut all);
    add::<wire::apps::SwitchSkill>(&mut all);
    add::<wire::apps::SwitchedSkill>(&mut all);
    add::<wire::apps::McpServerList>(&mut all);
    add::<wire::apps::McpToolList>(&mut all);
    add::<wire::WorkspaceStatus>(&mut all);
    add::<wire::fleet::CreateFleetRun>(&mut all);
    add::<wire::fleet::CreatedFleetRun>(&mut all);
    add::<wire::fleet::FleetRunList>(&mut all);
    add::<wire::fleet::StartedFleetRun>(&mut all);
    add::<wire::fleet::StoppedFleetRun>(&mut all);
    add::<wire::fleet::FleetWorkerList>(&mut all);
    add::<wire::fleet::FleetWorkerTold>(&mut all);
    add::<wire::fleet::FleetRunEvent>(&mut all);
    add::<wire::fleet::FleetEventReplay>(&mut all);
    add::<wire::agent_runs::AgentRunList>(&mut all);
    add::<wire::agent_runs::NudgeAgentRuns>(&mut all);
    add::<wire::agent_runs::NudgedAgentRuns>(&mut all);
    add::<wire::ContextUsage>(&mut all);
    add::<wire::config::ModelList>(&mut all);
    add::<wire::RuntimeEventEnvelope>(&mut all);
    let shown = all.into_iter().map(|(name, schema)| {
        let mut schema = serde_json::to_value(schema).unwrap_or_default();
        drop_defaults(&mut schema);
        (name, schema)
    });
    shown.chain(events::schemas()).collect()
}

/// Generators take a field with a default for one that is always there, which in a request it need not be.
fn drop_defaults(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            if let Some(Value::Object(properties)) = fields.get_mut("properties") {
                for property in properties.values_mut().filter_map(Value::as_object_mut) {
                    property.remove("default");
                }
            }
            fields.values_mut().for_each(drop_defaults);
        }
        Value::Array(values) => values.iter_mut().for_each(drop_defaults),
        _ => {}
    }
}

fn add<T: ToSchema + PartialSchema>(all: &mut BTreeMap<String, RefOr<Schema>>) {
    let mut parts = Vec::new();
    T::schemas(&mut parts);
    parts.push((T::name().into_owned(), T::schema()));
    all.extend(parts);
}
