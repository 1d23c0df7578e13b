-- Rows of turns, items and messages that are written together form a batch, and go to the ends of their tables. The upper half
-- of their keys is the number of the batch; the lower one stays the place. Here are the batches of each stream, with the places
-- of their first turn, item and message.
CREATE TABLE batches (
    batch INTEGER PRIMARY KEY,
    stream INTEGER NOT NULL,
    turns INTEGER NOT NULL CHECK (turns BETWEEN 0 AND 0xffffffff),
    items INTEGER NOT NULL CHECK (items BETWEEN 0 AND 0xffffffff),
    messages INTEGER NOT NULL CHECK (messages BETWEEN 0 AND 0xffffffff)
) STRICT;
CREATE INDEX batches_by_stream ON batches (stream);

-- What was written before is one batch for each stream that has rows, with the stream's number.
INSERT INTO batches SELECT key >> 32, key >> 32, 0, 0, 0 FROM (
    SELECT key FROM turns UNION ALL SELECT key FROM items UNION ALL SELECT key FROM messages
) GROUP BY key >> 32;

DROP INDEX turns_by_id;
ALTER TABLE turns ADD COLUMN stream INTEGER NOT NULL DEFAULT 0;
UPDATE turns SET stream = key >> 32;
CREATE INDEX turns_by_id ON turns (stream, id);
