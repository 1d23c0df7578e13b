//! The newest record of each stream, as the writer remembers it.
//!
//! An append does not write where a stream ends: that, its chain and which turns are open all follow
//! from its newest record, which names the first record of the oldest open turn (`open_from`, 0 when none is). So a
//! commit touches as few pages as it can, and the open turns are read again only after a restart.

use rusqlite::{Connection, OptionalExtension};

use super::ancestry::Lineage;
use super::fork::place;
use super::spans::{self, IN_ORDER, PLACED_COLUMNS, from, newest_position};
use crate::RecentlyUsed;
use crate::durable::chain::{Chain, Digest};
use crate::durable::record::{RecordBuffer, Stored};
use crate::journal::open_turns::{OpenTurns, TurnChange};
use crate::journal::{JournalError, StreamKey};
use crate::sqlite::error::Fault;
use crate::sqlite::numbers::{int, uint};

/// How many streams are remembered; looking one up again is cheap.
const MAX_REMEMBERED: usize = 4096;

/// Where a stream ends.
#[derive(Debug, Clone)]
pub(crate) struct Head {
    pub(crate) key: StreamKey,
    pub(crate) epoch: u64,
    pub(crate) seq: u64,
    pub(crate) chain: Digest,
    pub(crate) open: OpenTurns,
}

/// The writer's cache of stream heads.
#[derive(Debug, Default)]
pub(crate) struct Heads {
    chain: Chain,
    by_stream: RecentlyUsed<u64, Head>,
    /// The streams that the running job has changed, for a rollback.
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

    /// Returns where a stream ends; a stream that is not there was removed.
    pub(crate) fn get(&mut self, connection: &Connection, stream: u64) -> Result<&Head, Fault> {
        if self.by_stream.get(stream).is_none() {
            let head = load(connection, &self.chain, stream)?;
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

    pub(crate) fn take_back(&mut self) {
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

fn load(connection: &Connection, chain: &Chain, stream: u64) -> Result<Head, Fault> {
    let named: Option<(String, u64)> = connection
        .prepare_cached("SELECT key, epoch FROM streams WHERE id = ?1")?
        .query_row([int(stream)], |row| Ok((row.get(0)?, uint(row, 1)?)))
        .optional()?;
    let (key, epoch) = named.ok_or(JournalError::Removed(stream))?;
    let key = StreamKey::new(key);
    let newest: Option<(u64, Digest, u64)> = connection
        .prepare_cached(concat!(
            "SELECT seq, chain, open_from FROM records WHERE position = ",
            newest_position!("?1")
        ))?
        .query_row([int(stream)], |row| {
            Ok((uint(row, 0)?, row.get(1)?, uint(row, 2)?))
        })
        .optional()?;
    let Some((seq, chain, open_from)) = newest else {
        let kept = spans::newest(connection, stream)?;
        // A stream without its newest record is damaged, not empty.
        if kept > 0 {
            let damage = JournalError::Damaged {
                stream: key.to_string(),
                seq: kept,
                what: "it is missing".to_owned(),
            };
            return Err(damage.into());
        }
        return begin(connection, chain, key, stream, epoch);
    };
    let open = match open_from {
        0 => OpenTurns::default(),
        from => open_turns(connection, &key, stream, from)?,
    };
    Ok(Head {
        key,
        epoch,
        seq,
        chain,
        open,
    })
}

/// Returns the head of a stream without own records. A fork has none only while it is created.
fn begin(
    connection: &Connection,
    chain: &Chain,
    key: StreamKey,
    stream: u64,
    epoch: u64,
) -> Result<Head, Fault> {
    let lineage = Lineage::of(connection, &key, stream)?;
    let (seq, chain, open) = if lineage.is_fork() {
        place(connection, chain, &lineage)?
    } else {
        (0, chain.start(&key), OpenTurns::default())
    };
    Ok(Head {
        key,
        epoch,
        seq,
        chain,
        open,
    })
}

fn open_turns(
    connection: &Connection,
    key: &StreamKey,
    stream: u64,
    from: u64,
) -> Result<OpenTurns, Fault> {
    let mut statement = connection.prepare_cached(&format!(
        "SELECT {PLACED_COLUMNS} FROM placed WHERE stream = ?1 AND {} AND chunk = 0 {IN_ORDER}",
        from!("?2")
    ))?;
    let mut rows = statement.query([int(stream), int(from)])?;
    let mut open = OpenTurns::default();
    let mut buffer = RecordBuffer::default();
    while let Some(row) = rows.next()? {
        let stored = Stored::from_row(connection, row, &mut buffer)?;
        open.apply(stored.seq, TurnChange::of(&*stored.decode(key)?));
    }
    Ok(open)
}
