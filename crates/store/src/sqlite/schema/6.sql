-- Streams that begin with records of another one. `parent` holds record `parent_seq`, the last of them; `session`: whose they
-- are when they are read here.
CREATE TABLE forks (
    stream INTEGER PRIMARY KEY,
    parent INTEGER NOT NULL,
    parent_seq INTEGER NOT NULL,
    session BLOB NOT NULL
) STRICT;
CREATE INDEX forks_by_parent ON forks (parent, parent_seq);

-- Streams that were removed and have records that forks need. They have no row in `streams`.
CREATE TABLE kept (
    stream INTEGER PRIMARY KEY,
    key TEXT NOT NULL
) STRICT;

-- How much there was at some places between turns, so that whoever begins in the middle need not fold what lies before. The key is
-- the stream's number in the upper half and that of the record in the lower one. The first row of a fork is where it begins.
CREATE TABLE marks (
    key INTEGER PRIMARY KEY,
    turns INTEGER NOT NULL,
    items INTEGER NOT NULL,
    messages INTEGER NOT NULL,
    usage TEXT,
    latest_turn BLOB,
    latest_status INTEGER,
    activity INTEGER NOT NULL
) STRICT;

-- Whether whole turns were taken out, not only pieces of text.
ALTER TABLE pruned ADD COLUMN turns INTEGER NOT NULL DEFAULT 0;
