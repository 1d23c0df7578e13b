//! The query strings of all operations.

use super::query::{CommaList, QueryValue, queries, query_words};
use crate::runs::{RunKind, RunState};
use crate::tasks::TaskStatus;
use crate::usage::GroupBy;

const ARCHIVED: &str = "Includes archived ones.";
const ARCHIVED_ONLY: &str = "Archived ones only.";
const STATE: &str = "The states to include: `idle`, `running` or `waiting`, separated by commas.";
const CURSOR: &str =
    "The next page: the value of the header `x-windlass-next-cursor` of the previous one.";
const SINCE: &str = "Only events after this `seq`.";
const AFTER: &str = "Only events after the one with this cursor.";
const INCLUDE: &str = "Optional events, separated by commas: `tool_output` for the output of tools while they run, `queue` for inputs that wait for their turns.";
const SEARCH_SESSIONS: &str = "Only sessions with these words in title, id, directory or model.";
const LIMIT_50_1000: &str = "The number of entries at most: 1 to 1000, default 50.";

/// State of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ThreadState {
    /// No turn is open.
    Idle,
    /// A turn is executing.
    Running,
    /// The open turn is parked.
    Waiting,
}

query_words!(ThreadState, "idle, running or waiting", "idle" => Idle, "running" => Running, "waiting" => Waiting);

/// The order of saved sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SessionOrder {
    /// The most recently updated first.
    #[default]
    Recent,
    /// Alphabetically by title.
    Name,
    /// The longest first.
    Size,
}

query_words!(SessionOrder, "recent, name or size", "recent" => Recent, "name" => Name, "size" => Size);

query_words!(TaskStatus, "queued, running, completed, failed or canceled",
    "queued" => Queued, "running" => Running, "completed" => Completed, "failed" => Failed, "canceled" => Canceled);

query_words!(RunKind, "turn or reported", "turn" => Turn, "reported" => Reported);

query_words!(RunState, "in_progress, success, partial_success, done, failure, timeout, give_up, incomplete or cancelled",
    "in_progress" => InProgress, "success" => Success, "partial_success" => PartialSuccess, "done" => Done, "failure" => Failure,
    "timeout" => Timeout, "give_up" => GiveUp, "incomplete" => Incomplete, "cancelled" => Cancelled);

/// A selection of runs by status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunStatusFilter {
    /// Runs with this status.
    Is(RunState),
    /// Runs with any outcome.
    Completed,
    /// Runs that wait for a client.
    Waiting,
}

impl QueryValue for RunStatusFilter {
    const SCHEMA: &'static str = "string";
    const FORM: &'static str = "a status of runs, waiting or completed";

    fn parse(text: &str) -> Option<Self> {
        match text {
            "completed" => Some(Self::Completed),
            "waiting" => Some(Self::Waiting),
            status => RunState::parse(status).map(Self::Is),
        }
    }

    fn write(&self) -> String {
        match self {
            Self::Is(status) => status.write(),
            Self::Completed => "completed".to_owned(),
            Self::Waiting => "waiting".to_owned(),
        }
    }
}

query_words!(GroupBy, "day, model, provider or thread",
    "day" => Day, "model" => Model, "provider" => Provider, "thread" => Thread);

queries! {
    /// Query of `GET /v1/threads`.
    ThreadsQuery {
        limit: u64 = "The number of threads at most.",
        include_archived: bool = ARCHIVED,
        archived_only: bool = ARCHIVED_ONLY,
        state: CommaList<ThreadState> = STATE,
        cursor: String = CURSOR,
    }
    /// Selects summaries of threads.
    ThreadSummariesQuery {
        limit: u64 = LIMIT_50_1000,
        search: String = "Only threads with these words.",
        git: bool = "`false` skips the state of git, which is faster.",
        include_archived: bool = ARCHIVED,
        archived_only: bool = ARCHIVED_ONLY,
        state: CommaList<ThreadState> = STATE,
        cursor: String = CURSOR,
    }
    /// Selects the turns of a thread's detail.
    ThreadDetailQuery {
        turns: u64 = "The number of turns at most, newest first.",
        items: bool = "Whether the items of the turns are read; default `true`.",
    }
    /// Selects events to stream.
    EventsQuery {
        since_seq: u64 = SINCE,
        replay_limit: u64 = "The number of recorded events at most, newest first; at most 4096.",
        include: String = INCLUDE,
    }
    /// Selects events to export.
    ExportQuery {
        since_seq: u64 = SINCE,
        include: String = INCLUDE,
    }
    /// Query of `GET /v1/threads/{id}/records`.
    RecordsQuery {
        after: u64 = "Only records after this `seq`: the first ones.",
        before: u64 = "Only records before this `seq`: the last ones. Without `after` and `before`, the newest ones of the thread.",
        limit: u64 = "The number of records at most: 1 to 1000, default 200.",
        kinds: CommaList<String> = "Only records of these types, separated by commas; `tool.*` means all types that begin with `tool.`. A page may then have fewer records, or none, before the last one.",
        outline: bool = "`true` omits the content of the records.",
    }
    /// Selects the state of a thread.
    ThreadStateQuery {
        at: u64 = "The `seq` of the newest record that the state includes; default: the newest one of the thread.",
        turns: u64 = "The number of turns at most, newest first: 0 to 200, default 20.",
        items: bool = "Whether the items of the turns are read; default `true`.",
    }
    /// Query of `GET /v1/waits`.
    WaitsQuery {
        limit: u64 = "The number of waits at most: 1 to 200, default 50.",
        cursor: String = CURSOR,
    }
    /// Query of `GET /v1/runs`.
    RunsQuery {
        limit: u64 = "The number of runs at most: 1 to 200, default 50.",
        status: CommaList<RunStatusFilter> =
            "The states to include, separated by commas: `in_progress`, `success`, `partial_success`, `done`, `failure`, `timeout`, `give_up`, `incomplete`, `cancelled`; also `completed` (any outcome) and `waiting`.",
        agent: String = "Only runs of this agent.",
        kind: RunKind = "Only `turn` or `reported` runs.",
        q: String = "Only runs with this text in their intent, ignoring case. A page may then have fewer runs, or none, before the last one.",
        cursor: String = CURSOR,
    }
    /// Selects saved sessions.
    SessionsQuery {
        limit: u64 = LIMIT_50_1000,
        search: String = SEARCH_SESSIONS,
        include_archived: bool = ARCHIVED,
        archived_only: bool = ARCHIVED_ONLY,
        workspace: String = "Only sessions of this directory.",
        sort: SessionOrder = "`recent`, `name` or `size`; default `recent`.",
    }
    /// Selects the form of a saved session.
    SessionQuery {
        peek: bool = "Only the beginnings of the last messages.",
        entries: u64 = "With `peek`, the number of messages at most: 1 to 12, default 12.",
    }
    /// Query of `GET /v1/snapshots`.
    SnapshotsQuery {
        limit: u64 = "The number of snapshots at most: 1 to 100, default 20.",
    }
    /// Selects fleet runs.
    FleetRunsQuery {
        limit: u64 = "The number of runs at most: 1 to 100, default 50.",
        before: String = "Only runs older than the one with this id.",
    }
    /// Selects events of a fleet run.
    FleetEventsQuery {
        after: String = AFTER,
        limit: u64 = "The number of events per page: 1 to 1000, default 250.",
    }
    /// Selects agents that models started.
    AgentRunsQuery {
        limit: u64 = "The number of agents at most: 1 to 200, default 50.",
        parent: String = "Only agents that work for this thread.",
    }
    /// Query of `GET /v1/tasks`.
    TasksQuery {
        limit: u64 = "The number of tasks at most: 1 to 500, default 50.",
        status: CommaList<TaskStatus> =
            "The states to include: `queued`, `running`, `completed`, `failed` or `canceled`, separated by commas.",
        cursor: String = CURSOR,
    }
    /// Selects runs of an automation.
    AutomationRunsQuery {
        limit: u64 = "The number of runs at most: 1 to 500, default 50.",
    }
    /// Selects tools of MCP servers.
    McpToolsQuery {
        server: String = "Only tools of this server.",
        connect: bool = "`true` connects to all servers first; otherwise only connected ones are listed.",
    }
    /// Query of `GET /v1/usage`.
    UsageQuery {
        since: String = "Only turns that ended at this time or later (RFC 3339).",
        until: String = "Only turns that ended before this time (RFC 3339).",
        group_by: GroupBy = "`day`, `model`, `provider` or `thread`; default `day`.",
    }
}
