//! The folds of the streams that are being written.
//!
//! Whoever appends borrows the fold of its stream, applies its events and hands it to the writer with them: there are many who
//! append, and one who writes. What the writer does to a stream meanwhile ends the loan, and a fold that comes back too late is
//! dropped. So the fold of a stream is always that of its records, and who finds none there makes it again.

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::super::recently_used::RecentlyUsed;
use super::super::record::Encoded;
use super::fold::Fold;

/// How many folds are remembered.
const MAX_FOLDS: usize = 1024;
/// How many bytes of events they may hold together.
const MAX_BYTES: usize = 16 * 1024 * 1024;

/// What is remembered of a stream.
#[derive(Debug)]
pub(crate) struct Remembered {
    /// `None` for a stream that cannot be folded, because a record is damaged or not known. It has no rows, and its
    /// appends are no worse for it.
    pub(super) fold: Option<Box<Fold>>,
}

impl Remembered {
    pub(super) fn new(fold: Fold) -> Self {
        let fold = Some(Box::new(fold));
        Self { fold }
    }

    /// Returns the size of the events that it holds.
    fn size(&self) -> usize {
        self.fold.as_ref().map_or(0, |fold| fold.size())
    }

    /// Follows records.
    pub(crate) fn apply<'a>(&mut self, records: impl Iterator<Item = &'a Encoded>) {
        let Some(fold) = &mut self.fold else { return };
        for record in records {
            if let Some(event) = &record.event
                && !event.is_ephemeral()
            {
                fold.weigh(record.size);
                fold.apply(event);
            }
        }
    }
}

/// What whoever appends has borrowed.
#[derive(Debug)]
pub(crate) struct Loan {
    number: u64,
    pub(crate) known: Remembered,
}

/// All that is remembered.
#[derive(Debug, Default)]
pub(crate) struct Folds {
    shelf: Mutex<Shelf>,
}

#[derive(Debug, Default)]
struct Shelf {
    by_stream: RecentlyUsed<Spot>,
    bytes: usize,
    /// How many loans there were.
    loans: u64,
}

#[derive(Debug)]
enum Spot {
    Here(Remembered),
    Lent(u64),
}

impl Folds {
    fn lock(&self) -> MutexGuard<'_, Shelf> {
        self.shelf.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lends the fold of a stream.
    pub(crate) fn lend(&self, stream: u64) -> Option<Loan> {
        let mut shelf = self.lock();
        let number = shelf.loans + 1;
        let spot = shelf.by_stream.get(stream)?;
        match std::mem::replace(spot, Spot::Lent(number)) {
            Spot::Here(known) => {
                shelf.loans = number;
                shelf.bytes -= known.size();
                Some(Loan { number, known })
            }
            lent @ Spot::Lent(_) => {
                *spot = lent;
                None
            }
        }
    }

    /// Takes out what is remembered of a stream, or was lent of it and comes back in time; tells whether it was lent.
    pub(super) fn take(&self, stream: u64, loan: Option<Loan>) -> Option<(Remembered, bool)> {
        let mut shelf = self.lock();
        match (shelf.by_stream.remove(stream)?, loan) {
            (Spot::Here(known), _) => {
                shelf.bytes -= known.size();
                Some((known, false))
            }
            (Spot::Lent(number), Some(loan)) if loan.number == number => Some((loan.known, true)),
            (Spot::Lent(_), _) => None,
        }
    }

    /// Remembers a stream. When there is too much, what was used longest ago is forgotten.
    pub(super) fn put(&self, stream: u64, known: Remembered) {
        let mut shelf = self.lock();
        shelf.forget(stream);
        shelf.bytes += known.size();
        shelf.by_stream.insert(stream, Spot::Here(known));
        let mut forgotten = Vec::new();
        while shelf.by_stream.len() > MAX_FOLDS || shelf.bytes > MAX_BYTES {
            let Some(oldest) = shelf.by_stream.remove_oldest() else {
                break;
            };
            if let Spot::Here(known) = oldest {
                shelf.bytes -= known.size();
                forgotten.push(known);
            }
        }
        // To free much takes a while, and nobody should wait for it.
        drop(shelf);
        drop(forgotten);
    }

    pub(super) fn forget(&self, stream: u64) {
        self.lock().forget(stream);
    }

    pub(super) fn forget_all(&self) {
        let mut shelf = self.lock();
        shelf.by_stream.clear();
        shelf.bytes = 0;
    }
}

impl Shelf {
    fn forget(&mut self, stream: u64) {
        if let Some(Spot::Here(known)) = self.by_stream.remove(stream) {
            self.bytes -= known.size();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(bytes: usize) -> Remembered {
        let mut fold = Fold::default();
        fold.weigh(bytes);
        Remembered::new(fold)
    }

    #[test]
    fn what_was_lent_comes_back_once() {
        let folds = Folds::default();
        assert!(folds.lend(1).is_none(), "nothing is known");
        folds.put(1, known(10));
        let loan = folds.lend(1).unwrap();
        assert!(folds.lend(1).is_none(), "somebody has it");
        let (known, was_lent) = folds.take(1, Some(loan)).unwrap();
        assert_eq!((known.size(), was_lent), (10, true));
        assert!(folds.take(1, None).is_none(), "it was taken out");
    }

    #[test]
    fn what_comes_back_too_late_is_dropped() {
        let folds = Folds::default();
        let lend = |bytes| {
            folds.put(1, known(bytes));
            folds.lend(1).unwrap()
        };
        let loan = lend(10);
        assert!(folds.take(1, None).is_none(), "another job came first");
        assert!(folds.take(1, Some(loan)).is_none());

        let loan = lend(20);
        folds.put(1, known(30));
        let (known, was_lent) = folds.take(1, Some(loan)).unwrap();
        assert_eq!((known.size(), was_lent), (30, false), "the writer's own");

        let loan = lend(40);
        folds.forget(1);
        assert!(folds.take(1, Some(loan)).is_none());
        let (old, new) = (lend(50), lend(60));
        assert!(
            folds.take(1, Some(old)).is_none(),
            "it was lent again since"
        );
        assert!(
            folds.take(1, Some(new)).is_none(),
            "that loan has ended too"
        );
    }

    #[test]
    fn of_too_much_what_was_used_longest_ago_is_forgotten() {
        let folds = Folds::default();
        folds.put(1, known(MAX_BYTES));
        folds.put(2, known(1));
        assert!(folds.lend(1).is_none(), "there is no room for it");
        assert!(folds.lend(2).is_some());
        folds.put(3, known(MAX_BYTES));
        assert!(folds.lend(3).is_some(), "what was forgotten does not count");

        let folds = Folds::default();
        for stream in 0..=MAX_FOLDS as u64 {
            folds.put(stream, known(1));
        }
        assert!(folds.lend(0).is_none());
        assert!(folds.lend(1).is_some(), "all others are still known");
    }
}
