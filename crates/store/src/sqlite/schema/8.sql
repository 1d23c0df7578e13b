-- Records that were appended together lie together, so one row says where all of them are: `count` of them, up to 64,
-- whose numbers in their stream end with `last`, and whose positions end with `position`.
CREATE TABLE spans (
    stream INTEGER NOT NULL,
    last INTEGER NOT NULL,
    position INTEGER NOT NULL,
    count INTEGER NOT NULL CHECK (count BETWEEN 1 AND 64),
    PRIMARY KEY (stream, last)
) STRICT, WITHOUT ROWID;

-- The newest spans, as `schema/5.sql` had the newest places.
CREATE TABLE recent_spans (
    stream INTEGER NOT NULL,
    last INTEGER NOT NULL,
    position INTEGER NOT NULL,
    count INTEGER NOT NULL CHECK (count BETWEEN 1 AND 64),
    PRIMARY KEY (stream, last)
) STRICT, WITHOUT ROWID;

DROP VIEW placed;
DROP TABLE places;
DROP TABLE recent_places;

-- The records of spans, for whoever reads a stream. `spans/mod.rs` says how to ask for some of them.
CREATE VIEW placed AS
SELECT span.stream, last, last - count + 1 AS first, last - span.position + records.position AS seq, records.position,
    version, form, chunk, open_from, at, commits, chain, body
FROM spans AS span CROSS JOIN records
ON records.position BETWEEN span.position - count + 1 AND span.position AND records.stream = span.stream
UNION ALL
SELECT span.stream, last, last - count + 1 AS first, last - span.position + records.position AS seq, records.position,
    version, form, chunk, open_from, at, commits, chain, body
FROM recent_spans AS span CROSS JOIN records
ON records.position BETWEEN span.position - count + 1 AND span.position AND records.stream = span.stream;
