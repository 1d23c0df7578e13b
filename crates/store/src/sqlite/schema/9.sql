-- Rows of turns, items and messages that are written together form a batch, and go to the ends of their tables. The upper half
-- of their keys is the number of the batch; the lower one stays the place. Here are the batches of each stream, with the places
-- of their first turn, item and message. What was written before is one batch for each stream, with the stream's number.
CREATE TABLE batches (
    stream INTEGER NOT NULL,
    batch INTEGER NOT NULL,
    turns INTEGER NOT NULL,
    items INTEGER NOT NULL,
    messages INTEGER NOT NULL,
    PRIMARY KEY (stream, batch)
) STRICT, WITHOUT ROWID;
INSERT INTO batches SELECT id, id, 0, 0, 0 FROM streams UNION ALL SELECT stream, stream, 0, 0, 0 FROM kept;

DROP INDEX turns_by_id;
ALTER TABLE turns ADD COLUMN stream INTEGER NOT NULL DEFAULT 0;
UPDATE turns SET stream = key >> 32;
CREATE INDEX turns_by_id ON turns (stream, id);
