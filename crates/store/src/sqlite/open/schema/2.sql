-- Spending outlives threads.

-- The usage of turns whose rows were deleted: those of removed threads, and those that retention forgot (`queries/retained.rs`). One
-- row for each thread, day in UTC, model and provider. `day`: days since 1970. `ended_at`: when the last of its turns ended.
-- `cost` is the cost of the `priced` turns.
CREATE TABLE retained_usage (
    thread TEXT NOT NULL,
    day INTEGER NOT NULL,
    model TEXT NOT NULL,
    provider TEXT NOT NULL,
    ended_at INTEGER NOT NULL,
    turns INTEGER NOT NULL,
    input_tokens INTEGER NOT NULL,
    output_tokens INTEGER NOT NULL,
    cache_read_tokens INTEGER NOT NULL,
    cache_creation_tokens INTEGER NOT NULL,
    reasoning_tokens INTEGER NOT NULL,
    cost REAL NOT NULL,
    priced INTEGER NOT NULL,
    PRIMARY KEY (thread, day, model, provider)
) STRICT, WITHOUT ROWID;
CREATE INDEX retained_usage_by_end ON retained_usage (ended_at);

-- Charges by day in UTC, including reservations (`ledger.rs`). `day`: days since 1970. `owner` is empty for the operator.
CREATE TABLE spending (
    day INTEGER NOT NULL,
    owner TEXT NOT NULL,
    tokens INTEGER NOT NULL,
    micro_usd INTEGER NOT NULL,
    PRIMARY KEY (day, owner)
) STRICT, WITHOUT ROWID;

INSERT INTO spending
SELECT ended_at / 86400000000, agent, sum(coalesce(input_tokens, 0) + coalesce(output_tokens, 0)),
    sum(CAST(coalesce(cost, 0) * 1000000 + 0.999 AS INTEGER))
FROM turns WHERE ended_at >= 0 GROUP BY 1, 2;

-- Reservations of calls and runs that have not ended; `spending` includes them.
CREATE TABLE reservations (
    exec BLOB PRIMARY KEY NOT NULL,
    day INTEGER NOT NULL,
    owner TEXT NOT NULL,
    tokens INTEGER NOT NULL,
    micro_usd INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
