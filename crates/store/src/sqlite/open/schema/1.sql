CREATE TABLE schema_versions (
    version INTEGER PRIMARY KEY,
    applied_at INTEGER NOT NULL
) STRICT;

-- One row. `commits` and `position` lag if a newer record contains them. `folded`: up to this position the rows of
-- threads, turns, waits, runs and open streams are exact (`queries/mod.rs`).
CREATE TABLE state (
    only INTEGER PRIMARY KEY CHECK (only = 1),
    database_id BLOB NOT NULL,
    chain_key BLOB,
    commits INTEGER NOT NULL,
    position INTEGER NOT NULL,
    folded INTEGER NOT NULL DEFAULT 0
) STRICT;

-- The log.

-- `swept`: up to this record no text chunks are left to prune. `aged`: the newest record of the stream when a sweep found that no
-- record of it can expire before a newer one is appended. `client`: the connection that has, or had last, the right to write to the
-- run of the stream. It is stored with the epoch of that right, because no record contains it.
CREATE TABLE streams (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    key TEXT NOT NULL UNIQUE,
    epoch INTEGER NOT NULL,
    swept INTEGER NOT NULL DEFAULT 0,
    aged INTEGER NOT NULL DEFAULT 0,
    client TEXT
) STRICT;

-- `form`: 0 if `body` contains the bytes, 1 if it is the digest of a blob, 2 if it contains their short form, 3 if that has references.
-- `chunk`: whether a later record contains the whole text. `open_from`: the first record of the oldest open turn; 0 without one.
CREATE TABLE records (
    position INTEGER PRIMARY KEY,
    stream INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    version INTEGER NOT NULL,
    form INTEGER NOT NULL,
    chunk INTEGER NOT NULL,
    open_from INTEGER NOT NULL,
    at INTEGER NOT NULL,
    commits INTEGER NOT NULL,
    chain BLOB NOT NULL,
    body BLOB NOT NULL
) STRICT;
CREATE INDEX records_by_blob ON records (body) WHERE form = 1;

CREATE TABLE blobs (
    hash BLOB PRIMARY KEY NOT NULL,
    bytes BLOB NOT NULL
) STRICT;

-- Records that were appended together are adjacent, so one row refers to `count` of them, at most 64. Their numbers in the stream
-- end with `last`, and their positions with `position`.
CREATE TABLE spans (
    stream INTEGER NOT NULL,
    last INTEGER NOT NULL,
    position INTEGER NOT NULL,
    count INTEGER NOT NULL CHECK (count BETWEEN 1 AND 64),
    PRIMARY KEY (stream, last)
) STRICT, WITHOUT ROWID;

-- The records of streams. `spans/mod.rs` documents the conditions that select a part of a stream.
CREATE VIEW placed AS
SELECT span.stream, last, last - count + 1 AS first, last - span.position + records.position AS seq, records.position,
    version, form, chunk, open_from, at, commits, chain, body
FROM spans AS span CROSS JOIN records
ON records.position BETWEEN span.position - count + 1 AND span.position AND records.stream = span.stream;

-- Ranges of pruned records: their digests, one after the other, the chain at the end, and whether whole turns were pruned
-- or only text chunks.
CREATE TABLE pruned (
    stream INTEGER NOT NULL,
    first INTEGER NOT NULL,
    last INTEGER NOT NULL,
    pruned_at INTEGER NOT NULL,
    chain BLOB NOT NULL,
    digests BLOB NOT NULL,
    turns INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (stream, first)
) STRICT;

-- Forks: streams that begin with records of another one. `parent` contains record `parent_seq`, the last shared one. `session`: the
-- session ID under which the fork shows them.
CREATE TABLE forks (
    stream INTEGER PRIMARY KEY,
    parent INTEGER NOT NULL,
    parent_seq INTEGER NOT NULL,
    session BLOB NOT NULL
) STRICT;
CREATE INDEX forks_by_parent ON forks (parent, parent_seq);

-- Removed streams with records that forks share. They have no row in `streams`.
CREATE TABLE kept (
    stream INTEGER PRIMARY KEY,
    key TEXT NOT NULL
) STRICT;

-- Removed streams whose rows are still to be deleted: the records after `after` and up to `next`, and their other rows
-- (`deferred_delete.rs`).
CREATE TABLE removing (
    stream INTEGER PRIMARY KEY,
    after INTEGER NOT NULL,
    next INTEGER NOT NULL
) STRICT;

-- The read model, folded from the records (`queries/mod.rs`). It can be rebuilt, except for rows of pruned turns. `seq`: the newest
-- record that a row includes.

-- Streams in which a turn is open or an input waits.
CREATE TABLE open_streams (
    stream INTEGER PRIMARY KEY
) STRICT;

-- `kind`: 0 with a host record, 1 archived, 2 without a record. `state`: 0 idle, 1 running, 2 waiting. `agent` is empty for a
-- session without an agent. `latest`, `usage` and `origin` are JSON, and so is `gone`: the totals of turns whose rows were deleted.
CREATE TABLE threads (
    stream INTEGER PRIMARY KEY,
    seq INTEGER NOT NULL,
    at INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    kind INTEGER NOT NULL,
    state INTEGER NOT NULL,
    agent TEXT NOT NULL,
    latest TEXT,
    preview TEXT NOT NULL,
    turns INTEGER NOT NULL,
    items INTEGER NOT NULL,
    usage TEXT,
    origin TEXT,
    gone TEXT
) STRICT;
CREATE INDEX threads_by_time ON threads (kind, updated_at, stream);
CREATE INDEX threads_by_agent ON threads (agent, kind, updated_at, stream);
CREATE INDEX threads_open ON threads (kind, updated_at, stream, state) WHERE state > 0;

-- The host records of threads, and the number of the event that contains them.
CREATE TABLE thread_records (
    stream INTEGER PRIMARY KEY,
    seq INTEGER NOT NULL,
    record TEXT NOT NULL
) STRICT;

-- `place` is the position of the record that began the turn, `first` its number, `last` the number of the record that ended it. Each
-- turn is a run with `status` and `outcome`. `view` is the turn without its items, as JSON. `pruned`: its records were pruned, and it
-- is no longer a run.
CREATE TABLE turns (
    place INTEGER PRIMARY KEY,
    stream INTEGER NOT NULL,
    turn BLOB NOT NULL,
    first INTEGER NOT NULL,
    last INTEGER,
    seq INTEGER NOT NULL,
    agent TEXT NOT NULL,
    intent TEXT NOT NULL,
    status INTEGER NOT NULL,
    outcome INTEGER,
    steps INTEGER NOT NULL,
    ended_at INTEGER,
    model TEXT NOT NULL,
    provider TEXT NOT NULL,
    input_tokens INTEGER,
    output_tokens INTEGER,
    cache_read_tokens INTEGER,
    cache_creation_tokens INTEGER,
    reasoning_tokens INTEGER,
    cost REAL,
    view TEXT NOT NULL,
    pruned INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX turns_by_stream ON turns (stream, first);
CREATE INDEX turns_by_turn ON turns (turn, place);
CREATE INDEX turns_by_end ON turns (ended_at) WHERE ended_at IS NOT NULL;
CREATE INDEX turns_by_agent ON turns (agent, status, place) WHERE pruned = 0;
CREATE INDEX turns_by_status ON turns (status, place) WHERE pruned = 0;
CREATE INDEX turns_open ON turns (stream) WHERE status = 0;

-- Open and ended waits. An ended wait is found by its call, so that a repeated answer is recognized.
CREATE TABLE waits (
    exec BLOB NOT NULL,
    stream INTEGER NOT NULL,
    turn BLOB NOT NULL,
    kind INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    is_open INTEGER NOT NULL,
    PRIMARY KEY (exec, stream)
) STRICT, WITHOUT ROWID;
CREATE INDEX waits_by_stream ON waits (stream);
CREATE INDEX waits_open ON waits (stream, seq) WHERE is_open = 1;

-- Externally reported runs. `position` is the position of the first record, so a later run has a greater one.
CREATE TABLE runs (
    stream INTEGER PRIMARY KEY,
    position INTEGER NOT NULL,
    agent TEXT NOT NULL,
    intent TEXT NOT NULL,
    status INTEGER NOT NULL,
    outcome INTEGER,
    started_at INTEGER NOT NULL,
    ended_at INTEGER,
    turns INTEGER NOT NULL
) STRICT;
CREATE INDEX runs_by_agent ON runs (agent, status, position);
CREATE INDEX runs_by_status ON runs (status, position);
CREATE INDEX runs_by_end ON runs (ended_at) WHERE ended_at IS NOT NULL;

-- Primary data, which cannot be rebuilt.

CREATE TABLE harnesses (
    id BLOB PRIMARY KEY NOT NULL,
    name TEXT NOT NULL,
    parent BLOB,
    record TEXT NOT NULL
) STRICT;

CREATE TABLE agents (
    id BLOB PRIMARY KEY NOT NULL,
    name TEXT NOT NULL,
    record TEXT NOT NULL
) STRICT;

CREATE TABLE sessions (
    id BLOB PRIMARY KEY NOT NULL,
    harness BLOB NOT NULL,
    agent BLOB,
    parent BLOB,
    status TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    record TEXT NOT NULL
) STRICT;
CREATE INDEX sessions_by_age ON sessions (created_at, id);
CREATE INDEX sessions_by_parent ON sessions (parent, created_at, id) WHERE parent IS NOT NULL;
CREATE INDEX sessions_with_parent ON sessions (created_at, id) WHERE parent IS NOT NULL;

CREATE TABLE entries (
    session BLOB NOT NULL,
    name TEXT NOT NULL,
    value TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    PRIMARY KEY (session, name)
) STRICT;

CREATE TABLE secrets (
    session BLOB NOT NULL,
    name TEXT NOT NULL,
    key_id BLOB NOT NULL,
    nonce BLOB NOT NULL,
    sealed BLOB NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    PRIMARY KEY (session, name)
) STRICT;

-- `content` is NULL for a directory. The root exists without a row.
CREATE TABLE files (
    session BLOB NOT NULL,
    path TEXT NOT NULL,
    parent TEXT NOT NULL,
    id BLOB NOT NULL,
    is_readonly INTEGER NOT NULL,
    encoding TEXT NOT NULL,
    size INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    content BLOB,
    PRIMARY KEY (session, path)
) STRICT;
CREATE INDEX files_by_parent ON files (session, parent, path);

-- Records of the host: a kind, a name, and bytes that only the host interprets.
CREATE TABLE host_records (
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    at INTEGER NOT NULL,
    body BLOB NOT NULL,
    PRIMARY KEY (kind, name)
) STRICT;
CREATE INDEX host_records_by_age ON host_records (kind, at);
