-- Projections: what the records fold to, so that listing needs no fold. `projection/mod.rs` says when they are written.
-- The keys of `turns`, `items` and `messages` are the stream's number in the upper half and the place in the lower one.

-- Up to this position the rows of `threads` are exact. What came later is folded, or in the writer's memory.
ALTER TABLE state ADD COLUMN projected INTEGER NOT NULL DEFAULT 0;

-- One row for each stream with records. `seen`: the record for which it was written last. The columns from `upto` on
-- say how far the other tables reach, and how much there was at that record.
CREATE TABLE threads (
    stream INTEGER PRIMARY KEY,
    is_open INTEGER NOT NULL,
    is_waiting INTEGER NOT NULL,
    activity INTEGER NOT NULL,
    seen INTEGER NOT NULL,
    latest_turn BLOB,
    latest_status INTEGER,
    turns INTEGER NOT NULL,
    items INTEGER NOT NULL,
    messages INTEGER NOT NULL,
    usage TEXT,
    upto INTEGER NOT NULL,
    upto_turns INTEGER NOT NULL,
    upto_items INTEGER NOT NULL,
    upto_messages INTEGER NOT NULL,
    upto_usage TEXT
) STRICT;
CREATE INDEX threads_by_activity ON threads (is_open, activity);

-- Turns that have ended. `first_item`: the place of the first of its `items`, which follow each other. `input` and
-- `answer`: the messages that began it and that came last.
CREATE TABLE turns (
    key INTEGER PRIMARY KEY,
    id BLOB NOT NULL,
    status INTEGER NOT NULL,
    first INTEGER NOT NULL,
    last INTEGER NOT NULL,
    started_at INTEGER,
    ended_at INTEGER,
    first_item INTEGER NOT NULL,
    items INTEGER NOT NULL,
    session BLOB NOT NULL,
    input BLOB,
    answer BLOB,
    detail TEXT NOT NULL
) STRICT;
CREATE INDEX turns_by_id ON turns (key >> 32, id);

CREATE TABLE items (
    key INTEGER PRIMARY KEY,
    id BLOB NOT NULL,
    exec BLOB,
    kind INTEGER NOT NULL,
    status INTEGER NOT NULL,
    first INTEGER NOT NULL,
    last INTEGER NOT NULL,
    started_at INTEGER,
    ended_at INTEGER,
    error_code TEXT,
    summary TEXT NOT NULL
) STRICT;

-- `seq`: the record that holds the message.
CREATE TABLE messages (
    key INTEGER PRIMARY KEY,
    id BLOB NOT NULL,
    role INTEGER NOT NULL,
    seq INTEGER NOT NULL
) STRICT;
