-- Where the records of each stream are.
--
-- With one index over all streams, a commit would write a page of it for every stream that it writes to. So the newest
-- places are in a small table, whose few pages all streams share, and go to the large one many at a time.
CREATE TABLE places (
    stream INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    position INTEGER NOT NULL,
    PRIMARY KEY (stream, seq)
) STRICT, WITHOUT ROWID;

CREATE TABLE recent_places (
    stream INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    position INTEGER NOT NULL,
    PRIMARY KEY (stream, seq)
) STRICT, WITHOUT ROWID;

INSERT INTO places SELECT stream, seq, position FROM records ORDER BY stream, seq;
DROP INDEX records_by_stream;

-- The records by their places, for whoever reads a stream.
CREATE VIEW placed AS
SELECT places.stream, places.seq, records.position, version, form, chunk, open_from, at, commits, chain, body
FROM places CROSS JOIN records ON records.position = places.position
UNION ALL
SELECT recent_places.stream, recent_places.seq, records.position, version, form, chunk, open_from, at, commits, chain, body
FROM recent_places CROSS JOIN records ON records.position = recent_places.position;
