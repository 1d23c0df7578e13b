-- Turns of sessions as runs: one row each, so that a list finds them. `turn_runs/mod.rs` says when they are written.

-- Up to this position the rows of `turn_runs` are exact. What came later is folded, or in the writer's memory.
ALTER TABLE state ADD COLUMN turn_runs INTEGER NOT NULL DEFAULT 0;

-- The agents that sessions belong to; those of no agent have no row.
CREATE TABLE owners (
    stream INTEGER PRIMARY KEY,
    agent TEXT NOT NULL
) STRICT;

-- `position` is that of the record that began the turn, `first` its number; the row goes with that record. `agent` is
-- empty for a session of no agent. `waiting`: a bit for each kind of wait.
CREATE TABLE turn_runs (
    position INTEGER PRIMARY KEY,
    stream INTEGER NOT NULL,
    turn BLOB NOT NULL,
    first INTEGER NOT NULL,
    agent TEXT NOT NULL,
    intent TEXT NOT NULL,
    status INTEGER NOT NULL,
    outcome INTEGER,
    waiting INTEGER NOT NULL,
    started_at INTEGER NOT NULL,
    ended_at INTEGER,
    turns INTEGER NOT NULL
) STRICT;
CREATE INDEX turn_runs_by_agent ON turn_runs (agent, status, position);
CREATE INDEX turn_runs_by_status ON turn_runs (status, position);
CREATE INDEX turn_runs_by_turn ON turn_runs (turn);
