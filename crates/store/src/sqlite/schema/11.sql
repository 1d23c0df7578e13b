-- Streams with a turn that has not ended, as of the last time that spans went to the large table; those with newer spans are looked
-- at one by one (`open_streams.rs`).
CREATE TABLE open_streams (
    stream INTEGER PRIMARY KEY
) STRICT;

-- What is still to be taken out of streams that were removed: the records behind `after`, of which those up to `next` are left, and
-- what belongs to them (`removing.rs`).
CREATE TABLE removing (
    stream INTEGER PRIMARY KEY,
    after INTEGER NOT NULL,
    next INTEGER NOT NULL
) STRICT;

-- `aged`: the newest record of the stream when a sweep found that nothing of it can get too old before a newer one comes.
ALTER TABLE streams ADD COLUMN aged INTEGER NOT NULL DEFAULT 0;
