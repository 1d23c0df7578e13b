//! A window over the latest records of a stream: a new record refers to their texts and objects instead of containing them again.
//!
//! A text occurs in several events of its turn: arguments are in the answer, in the call and in its result, an output in the result and in the next
//! message. The window stores the text of the latest records as written. If a value of a new record begins like one of theirs, the equal part around
//! that position becomes a [`Reference`]. This module does not interpret events.
//!
//! Three rules make references safe:
//!
//! - **A reference points to bytes that are in the record itself**, never to a part that is a reference there. So one look-up
//!   resolves it, and chains of references cannot arise.
//! - **A reference stays within a group.** A group ends when no turn is open and no input waits, and after each
//!   [`GROUP`]th number. Retention removes whole groups ([`is_other_group`]). A fork shares, and a removed parent retains, all records up
//!   to one. A removal begins with the newest record. So a record never outlives one that it refers to.
//! - **Text chunks neither refer to others nor are referred to**: they are pruned before the rest of their turn.
//!
//! A window is only in memory. If it is lost, some values are stored again.

use std::collections::HashMap;

use super::pack::Reference;
use crate::RecentlyUsed;
use crate::journal::open_turns::{OpenTurns, TurnChange};

/// Each multiple of this number ends a group.
const GROUP: u64 = 128;

/// The minimum size in bytes of a value that a reference replaces.
const MIN_BYTES: usize = 64;

/// The maximum number of values per record that others may refer to.
const MAX_VALUES: usize = 1024;

/// The maximum number of bytes in a window.
const MAX_BYTES: usize = 1024 * 1024;

/// The maximum number of bytes in all windows.
const MAX_ALL_BYTES: usize = 64 * 1024 * 1024;

/// Returns whether two records are never of one group, whether or not a turn is open between them.
pub const fn is_other_group(before: u64, seq: u64) -> bool {
    (before - 1) / GROUP != (seq - 1) / GROUP
}

/// The last records of a stream.
#[derive(Debug, Default)]
pub struct Window {
    /// Their numbers and texts.
    records: Vec<(u64, Box<[u8]>)>,
    /// Where values begin, by a hash of their first bytes.
    values: HashMap<u64, Value>,
    open: OpenTurns,
    bytes: usize,
}

/// A value in a record, with the bytes around it that are in that record itself.
#[derive(Debug, Clone, Copy)]
struct Value {
    /// Index of the record.
    record: usize,
    at: usize,
    /// Start of those bytes.
    start: usize,
    /// End of those bytes.
    end: usize,
}

impl Window {
    /// Finds the parts that a text has in common with records of the window, and adds the other parts under its number.
    pub(crate) fn refer(&mut self, seq: u64, text: &[u8]) -> Vec<Reference> {
        let mut references = Vec::new();
        let mut new: Vec<(u64, Value)> = Vec::new();
        let mut own = 0;
        // The number of new values before the last reference.
        let mut before = 0;
        let mut at = 0;
        while let Some(value) = next_value(text, at) {
            at = value;
            let Some(bytes) = text.get(value..value + MIN_BYTES) else {
                break;
            };
            let hash = hash(bytes);
            if let Some(found) = self.values.get(&hash)
                && let Some(reference) = self.common(text, (own, value), *found)
            {
                let part = reference.part.clone();
                let mut since = new.split_off(before);
                since.retain_mut(|(_, value)| {
                    value.end = part.start;
                    value.at + MIN_BYTES <= value.end
                });
                new.extend(since);
                before = new.len();
                (own, at) = (part.end, part.end);
                references.push(reference);
            } else if new.len() < MAX_VALUES {
                new.push((
                    hash,
                    Value {
                        record: self.records.len(),
                        at: value,
                        start: own,
                        end: text.len(),
                    },
                ));
            }
        }
        self.remember(seq, text, new);
        references
    }

    /// Returns the longest equal part around a value and a known one. It begins after `own`.
    fn common(&self, text: &[u8], (own, at): (usize, usize), earlier: Value) -> Option<Reference> {
        let (seq, record) = self.records.get(earlier.record)?;
        let after = equal(&text[at..], &record[earlier.at..earlier.end]);
        let before = text[own..at].iter().rev();
        let before = before.zip(record[earlier.start..earlier.at].iter().rev());
        let before = before.take_while(|(a, b)| a == b).count();
        (after >= MIN_BYTES).then(|| Reference {
            part: at - before..at + after,
            seq: *seq,
            start: earlier.at - before,
        })
    }

    fn remember(&mut self, seq: u64, text: &[u8], values: Vec<(u64, Value)>) {
        let bytes = text.len() + size_of_val(values.as_slice());
        if values.is_empty() || bytes > MAX_BYTES {
            return;
        }
        if self.bytes + bytes > MAX_BYTES {
            return self.forget();
        }
        self.bytes += bytes;
        self.records.push((seq, text.into()));
        for (hash, value) in values {
            self.values.entry(hash).or_insert(value);
        }
    }

    /// Notes a record: at the end of its group, the window is cleared.
    pub(crate) fn pass(&mut self, seq: u64, change: Option<TurnChange>) {
        self.open.apply(seq, change);
        if seq.is_multiple_of(GROUP) || self.open.first().is_none() {
            self.forget();
        }
    }

    fn forget(&mut self) {
        self.records.clear();
        self.values.clear();
        self.bytes = 0;
    }
}

/// Returns the start of the next member value that is worth a reference: an object, an array or a long text. A match inside a text
/// is harmless.
fn next_value(text: &[u8], after: usize) -> Option<usize> {
    let mut from = after + 1;
    loop {
        let colon = from + text.get(from..)?.iter().position(|byte| *byte == b':')?;
        from = colon + 1;
        if text[colon - 1] != b'"' {
            continue;
        }
        match text.get(from)? {
            b'{' | b'[' => return Some(from),
            b'"' => {
                let start = from + 1;
                let text = text.get(start..start + MIN_BYTES)?;
                let is_end = |pair: &[u8]| pair[1] == b'"' && pair[0] != b'\\';
                if text[0] != b'"' && !text.windows(2).any(is_end) {
                    return Some(start);
                }
            }
            _ => {}
        }
    }
}

/// Returns how many bytes two texts begin with alike.
fn equal(one: &[u8], other: &[u8]) -> usize {
    const STEP: usize = 256;
    let steps = one.chunks_exact(STEP).zip(other.chunks_exact(STEP));
    let whole = steps.take_while(|(a, b)| a == b).count() * STEP;
    let rest = one[whole..].iter().zip(&other[whole..]);
    whole + rest.take_while(|(a, b)| a == b).count()
}

/// Mixes the first bytes of a value. Equal hashes are only a reason to compare.
fn hash(bytes: &[u8]) -> u64 {
    let words = bytes.as_chunks::<8>().0.iter();
    words.fold(0, |hash: u64, word| {
        let mixed = (hash ^ u64::from_le_bytes(*word)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        mixed ^ (mixed >> 32)
    })
}

/// The windows of streams in which a turn is open.
#[derive(Debug, Default)]
pub struct Windows {
    by_stream: RecentlyUsed<u64, IdleWindow>,
    bytes: usize,
}

/// A window that waits for the next append.
#[derive(Debug)]
struct IdleWindow {
    window: Window,
    /// The append that may continue it: its epoch and its first number.
    next: (u64, u64),
}

impl Windows {
    /// Removes the window with which an append continues; an empty one if there is none.
    pub fn take(&mut self, stream: u64, next: (u64, u64)) -> Window {
        let idle = self.by_stream.remove(stream);
        self.bytes -= idle.as_ref().map_or(0, |idle| idle.window.bytes);
        idle.filter(|idle| idle.next == next)
            .map_or_else(Window::default, |idle| idle.window)
    }

    /// Puts a window back once the records that it remembers are written.
    pub fn put(&mut self, stream: u64, window: Window, next: (u64, u64)) {
        if window.open.first().is_none() {
            return;
        }
        self.take(stream, next);
        self.bytes += window.bytes;
        self.by_stream.insert(stream, IdleWindow { window, next });
        while self.bytes > MAX_ALL_BYTES
            && let Some(oldest) = self.by_stream.remove_oldest()
        {
            self.bytes -= oldest.window.bytes;
        }
    }
}

#[cfg(test)]
mod tests;
