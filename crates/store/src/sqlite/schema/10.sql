-- The rows of runs from outside are made from their records, and written late, like those of turns (`run_rows/mod.rs`). `state.turn_runs`
-- is now the position up to which both are exact. Which connection may write to a run, or could last, is in no record: it stands beside
-- the epoch of that right.
ALTER TABLE streams ADD COLUMN client TEXT;
UPDATE streams SET client = runs.client FROM runs WHERE runs.stream = streams.id;
ALTER TABLE runs DROP COLUMN client;
