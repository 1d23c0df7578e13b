//! The writer's cache of the ends of streams.
//!
//! An append writes no row for the stream. Its end, its chain and its open turns follow from its newest record, which refers to the first record of
//! the oldest open turn (`open_from`; 0 without one). So a commit changes few pages, and open turns are read again only after a restart.

use rusqlite::Connection;

use super::ancestry::Lineage;
use super::fork::{self, replay};
use super::spans::{self, newest_position};
use crate::RecentlyUsed;
use crate::durable::chain::{Chain, Digest};
use crate::journal::open_turns::{OpenTurns, TurnChange};
use crate::journal::{JournalError, StreamKey};
use crate::sqlite::cached::CachedStatements;
use crate::sqlite::error::DbResult;
use crate::sqlite::numbers::{int, uint};

/// The maximum number of cached streams; another look-up is cheap.
const MAX_REMEMBERED: usize = 4096;

/// The end of a stream.
#[derive(Debug, Clone)]
pub(crate) struct Head {
    pub(crate) key: StreamKey,
    pub(crate) epoch: u64,
    pub(crate) seq: u64,
    pub(crate) chain: Digest,
    pub(crate) open: OpenTurns,
}

impl Head {
    /// Advances the head by the next record, or by the digest of a pruned one.
    pub(crate) fn advance(&mut self, chain: &Chain, digest: &Digest) {
        self.seq += 1;
        self.chain = chain.link(&self.chain, self.seq, digest);
    }
}

/// The writer's cache of stream heads.
#[derive(Debug, Default)]
pub(crate) struct Heads {
    chain: Chain,
    by_stream: RecentlyUsed<u64, Head>,
    /// The streams that the current job has changed, for a rollback.
    touched: Vec<u64>,
}

impl Heads {
    pub(crate) fn new(chain: Chain) -> Self {
        Self {
            chain,
            ..Self::default()
        }
    }

    pub(crate) fn chain(&self) -> &Chain {
        &self.chain
    }

    /// Returns the end of a stream; fails with [`JournalError::Removed`] if it does not exist.
    pub(crate) fn get(&mut self, db: &Connection, stream: u64) -> DbResult<&Head> {
        if self.by_stream.get(stream).is_none() {
            let head = load(db, &self.chain, stream)?;
            self.put(stream, head);
        }
        let head = self.by_stream.get(stream);
        head.map(|head| &*head)
            .ok_or_else(|| JournalError::Removed(stream).into())
    }

    pub(crate) fn put(&mut self, stream: u64, head: Head) {
        self.by_stream.insert(stream, head);
        if self.by_stream.count() > MAX_REMEMBERED {
            self.by_stream.remove_oldest();
        }
        self.touched.push(stream);
    }

    /// Begins a job; its changes can be rolled back until the next one begins.
    pub(crate) fn begin(&mut self) {
        self.touched.clear();
    }

    /// Evicts the streams that the current job has changed.
    pub(crate) fn roll_back(&mut self) {
        for stream in self.touched.drain(..) {
            self.by_stream.remove(stream);
        }
    }

    pub(crate) fn forget(&mut self, stream: u64) {
        self.by_stream.remove(stream);
    }

    pub(crate) fn forget_all(&mut self) {
        self.by_stream.clear();
    }
}

fn load(db: &Connection, chain: &Chain, stream: u64) -> DbResult<Head> {
    let named: Option<(String, u64)> = db.find_row(
        "SELECT key, epoch FROM streams WHERE id = ?1",
        [int(stream)],
        |row| Ok((row.get(0)?, uint(row, 1)?)),
    )?;
    let (key, epoch) = named.ok_or(JournalError::Removed(stream))?;
    let key = StreamKey::new(key);
    let record: Option<(u64, Digest, u64)> = db.find_row(
        concat!(
            "SELECT seq, chain, open_from FROM records WHERE position = ",
            newest_position!("?1")
        ),
        [int(stream)],
        |row| Ok((uint(row, 0)?, row.get(1)?, uint(row, 2)?)),
    )?;
    let (seq, chain, open) = match record {
        Some((seq, link, 0)) => (seq, link, OpenTurns::default()),
        Some((seq, link, open_from)) => {
            let mut open = OpenTurns::default();
            let own = Lineage::alone(&key, stream);
            replay(db, &own, open_from - 1, seq, |event| {
                open.apply(event.seq(), TurnChange::of(event));
            })?;
            (seq, link, open)
        }
        None => start(db, chain, &key, stream)?,
    };
    Ok(Head {
        key,
        epoch,
        seq,
        chain,
        open,
    })
}

/// Returns the end of a stream without own records. A fork has none only while it is created.
fn start(
    db: &Connection,
    chain: &Chain,
    key: &StreamKey,
    stream: u64,
) -> DbResult<(u64, Digest, OpenTurns)> {
    let newest = spans::newest(db, stream)?;
    // A stream without its newest record is damaged, not empty.
    if newest > 0 {
        return Err(JournalError::damaged(key, newest, "it is missing").into());
    }
    let lineage = Lineage::load(db, key, stream)?;
    if lineage.is_fork() {
        fork::start(db, chain, &lineage)
    } else {
        Ok((0, chain.start(key), OpenTurns::default()))
    }
}
