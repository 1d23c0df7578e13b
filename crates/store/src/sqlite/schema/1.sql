CREATE TABLE schema_versions (
    version INTEGER PRIMARY KEY,
    applied_at INTEGER NOT NULL
) STRICT;

-- One row. `commits` and `position` are behind where a newer record carries them.
CREATE TABLE state (
    only INTEGER PRIMARY KEY CHECK (only = 1),
    database_id BLOB NOT NULL,
    chain_key BLOB,
    commits INTEGER NOT NULL,
    position INTEGER NOT NULL
) STRICT;

-- `swept`: up to here no pieces of text are left to prune.
CREATE TABLE streams (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    key TEXT NOT NULL UNIQUE,
    epoch INTEGER NOT NULL,
    swept INTEGER NOT NULL DEFAULT 0
) STRICT;

-- `form`: 0 when `body` holds the bytes, 1 when it names a blob, 2 when it holds their short form. `chunk`: whether a later record holds the text whole.
-- `open_from`: the first record of the oldest open turn, 0 when none is open.
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
CREATE UNIQUE INDEX records_by_stream ON records (stream, seq);
CREATE INDEX records_by_blob ON records (body) WHERE form = 1;

CREATE TABLE blobs (
    hash BLOB PRIMARY KEY NOT NULL,
    bytes BLOB NOT NULL
) STRICT;

-- What was pruned: the digests of its records, one after the other, and the chain at its end.
CREATE TABLE pruned (
    stream INTEGER NOT NULL,
    first INTEGER NOT NULL,
    last INTEGER NOT NULL,
    pruned_at INTEGER NOT NULL,
    chain BLOB NOT NULL,
    digests BLOB NOT NULL,
    PRIMARY KEY (stream, first)
) STRICT;

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
CREATE INDEX sessions_by_status ON sessions (status);
CREATE INDEX sessions_by_parent ON sessions (parent) WHERE parent IS NOT NULL;

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

-- `content` is NULL for a directory. The root is there without a row.
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
