-- One row for each run, made from its records: where lists look. `position` is that of its first record, so a later run
-- has a greater one. `client` is the connection that may write, or could last.
CREATE TABLE runs (
    position INTEGER PRIMARY KEY,
    stream INTEGER NOT NULL,
    agent TEXT NOT NULL,
    intent TEXT NOT NULL,
    status TEXT NOT NULL,
    outcome TEXT,
    started_at INTEGER NOT NULL,
    ended_at INTEGER,
    turns INTEGER NOT NULL,
    client TEXT NOT NULL
) STRICT;
CREATE INDEX runs_by_agent ON runs (agent, status, position);
CREATE INDEX runs_by_status ON runs (status, position);
