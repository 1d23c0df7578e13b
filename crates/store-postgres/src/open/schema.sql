CREATE TABLE state (
    one bool PRIMARY KEY DEFAULT true CHECK (one),
    version int NOT NULL,
    -- Identifies the database in cursors.
    id uuid NOT NULL,
    -- Added to the IDs of transactions, so that the numbers of commits grow when the database moves to another server.
    commit_base bigint NOT NULL,
    -- Identifies the key of the chain.
    key_check bytea
);

-- One row per stream. Names are bytes, because they may contain any character and sort by their bytes.
CREATE TABLE streams (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    -- The digest of the name, which may be too long for an index. A removed stream that forks share has none.
    key_hash bytea UNIQUE,
    key bytea NOT NULL,
    removed bool NOT NULL DEFAULT false,
    epoch bigint NOT NULL,
    head bigint NOT NULL,
    -- The chain at the head.
    chain bytea NOT NULL,
    -- The first record of the oldest open turn.
    open_from bigint,
    -- The origin of a fork: the stream that contains the last shared record, its number, and the session of the fork.
    parent bigint,
    parent_seq bigint,
    session uuid
) WITH (fillfactor = 50);
CREATE INDEX streams_open ON streams (id) WHERE open_from IS NOT NULL;
CREATE INDEX streams_parent ON streams (parent) WHERE parent IS NOT NULL;

CREATE TABLE records (
    stream bigint NOT NULL,
    seq bigint NOT NULL,
    -- The number of the transaction, and the position in it: the order of the feed.
    commit_number bigint NOT NULL,
    commit_index bigint NOT NULL,
    version int NOT NULL,
    form smallint NOT NULL,
    chunk bool NOT NULL,
    open_from bigint NOT NULL,
    at bigint NOT NULL,
    chain bytea NOT NULL,
    body bytea NOT NULL,
    PRIMARY KEY (stream, seq)
);
CREATE INDEX records_feed ON records (commit_number, commit_index);
-- Bodies are short forms already.
ALTER TABLE records ALTER COLUMN body SET STORAGE EXTERNAL;

CREATE TABLE host_records (
    place bigint GENERATED ALWAYS AS IDENTITY,
    kind text NOT NULL,
    name bytea NOT NULL,
    at bigint NOT NULL,
    body bytea NOT NULL,
    PRIMARY KEY (kind, name)
);
CREATE INDEX host_records_at ON host_records (kind, at, place);

CREATE TABLE spending (
    day bigint NOT NULL,
    owner bytea NOT NULL,
    tokens bigint NOT NULL,
    micro_usd bigint NOT NULL,
    PRIMARY KEY (day, owner)
);
CREATE TABLE reservations (
    exec uuid PRIMARY KEY,
    day bigint NOT NULL,
    owner bytea NOT NULL,
    tokens bigint NOT NULL,
    micro_usd bigint NOT NULL
);
CREATE INDEX reservations_day ON reservations (day, owner);
