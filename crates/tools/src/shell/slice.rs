//! A part of a background command's output.

use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;

use serde_json::{Value, json};
use windlass_core::traits::SecretPlaces;

use super::safe_cuts::Piece;
use crate::outputs::KeptSoFar;
use crate::tool::with_remarks;

/// The output of a command: its file, followed by the end in memory while the command runs and the file is full.
pub(super) struct Printed<'a, F> {
    pub(super) file: F,
    /// Length of the file in bytes.
    pub(super) bytes: u64,
    /// Current extent of a running command's output.
    pub(super) so_far: Option<&'a KeptSoFar>,
    pub(super) places: Option<&'a dyn SecretPlaces>,
}

/// A part of an output.
#[derive(Debug)]
pub(super) struct Slice {
    pub(super) text: String,
    /// Offset of the next part.
    pub(super) next: u64,
    pub(super) remarks: Vec<String>,
}

impl<F: Read + Seek> Printed<'_, F> {
    /// Returns the output after the given offset, or the end. It is never cut inside a secret.
    pub(super) fn slice(&mut self, after: Option<u64>, max_bytes: usize) -> io::Result<Slice> {
        let max = max_bytes as u64;
        let end_bytes = self.so_far.map_or(0, |so_far| so_far.end.len() as u64);
        let (stored, total) = match self.so_far {
            Some(so_far) if end_bytes > 0 => (so_far.stored.min(self.bytes), so_far.total),
            _ => (self.bytes, self.bytes),
        };
        let end_from = total - end_bytes;
        let asked = after.map_or(total.saturating_sub(max), |after| after.min(total));
        let has_gap = end_from > stored;
        // The contiguous part that contains the requested offset.
        let part = match has_gap {
            true if after.is_none() || asked >= stored => end_from..total,
            true => 0..stored,
            false => 0..total,
        };
        let start = asked.max(part.start);
        let margin = self.places.map_or(0, SecretPlaces::longest) as u64;
        let from = start.saturating_sub(margin).max(part.start);
        let to = (start + max + 2 * margin).min(part.end);
        let window = self.read(from..to, stored, end_from)?;
        let may_grow = self.so_far.is_some() || part.end < total;
        let piece = Piece {
            bytes: &window,
            is_cut_before: from == part.start && from > 0,
            is_cut_after: to < part.end || may_grow,
        };
        let at = usize::try_from(start - from).map_or(window.len(), |at| at.min(window.len()));
        let shown = piece.shown(self.places, at, max_bytes);
        let mut read = &window[shown.range.clone()];
        let is_full = to < part.end || shown.range.end < shown.settled;
        // An incomplete character is shown with the next part.
        if let (true, Err(error)) = (piece.is_cut_after || is_full, std::str::from_utf8(read))
            && error.error_len().is_none()
            && error.valid_up_to() > 0
        {
            read = &read[..error.valid_up_to()];
        }
        let mut next = from + (shown.range.start + read.len()) as u64;
        if part.end < total && to == part.end && !is_full {
            // The rest is the beginning of bytes that are not stored.
            next = part.end;
        }
        let next = next.max(after.unwrap_or(0));
        let remarks = self.remarks(after, start, part, next, is_full);
        Ok(Slice {
            text: String::from_utf8_lossy(read).into_owned(),
            next,
            remarks,
        })
    }

    /// Reads a contiguous range from the file and the end in memory.
    fn read(&mut self, range: Range<u64>, stored: u64, end_from: u64) -> io::Result<Vec<u8>> {
        let mut read = Vec::new();
        if range.start < stored {
            self.file.seek(SeekFrom::Start(range.start))?;
            let wanted = range.end.min(stored) - range.start;
            self.file.by_ref().take(wanted).read_to_end(&mut read)?;
        }
        let end = self.so_far.map_or(&[][..], |so_far| &so_far.end);
        let place = |at: u64| usize::try_from(at.saturating_sub(end_from)).unwrap_or(usize::MAX);
        let of_end = place(range.start).min(end.len())..place(range.end).min(end.len());
        read.extend_from_slice(&end[of_end]);
        Ok(read)
    }

    fn remarks(
        &self,
        after: Option<u64>,
        start: u64,
        part: Range<u64>,
        next: u64,
        is_full: bool,
    ) -> Vec<String> {
        let mut remarks = Vec::new();
        match (self.so_far, after) {
            (Some(so_far), None) if part.start > 0 => remarks.push(format!(
                "{} bytes came; of those after the first {} only the end is kept, and it is shown",
                so_far.total, so_far.stored
            )),
            (_, None) if start > 0 => {
                remarks.push(format!("the first {start} bytes are not shown"));
            }
            (_, Some(after)) if after < part.start => {
                remarks.push(format!("{} bytes are not kept", part.start - after));
            }
            _ => {}
        }
        if is_full {
            remarks.push(format!("more came; go on with `after` {next}"));
        }
        if let (Some(so_far), true) = (self.so_far, after.is_some() && part.start == 0)
            && so_far.total - so_far.end.len() as u64 > part.end
        {
            remarks.push(format!(
                "of what came after the first {} bytes only the end is kept; ask without `after` to see it",
                so_far.stored
            ));
        }
        remarks
    }
}

impl Slice {
    pub(super) fn told(self, mut command: Value, network: Option<String>) -> Value {
        command["output"] = json!(self.text);
        command["next"] = json!(self.next);
        let before = command["remark"].as_str().map(str::to_owned);
        let remarks = before.into_iter().chain(self.remarks).chain(network);
        with_remarks(command, remarks.collect())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    fn slice(
        file: &str,
        so_far: Option<&KeptSoFar>,
        after: Option<u64>,
        max: usize,
    ) -> (String, u64, String) {
        let mut printed = Printed {
            file: Cursor::new(file.as_bytes()),
            bytes: file.len() as u64,
            so_far,
            places: None,
        };
        let slice = printed.slice(after, max).unwrap();
        (slice.text, slice.next, slice.remarks.join("; "))
    }

    fn full(total: u64, end: &str) -> KeptSoFar {
        KeptSoFar {
            total,
            stored: 4,
            end: end.as_bytes().to_vec(),
        }
    }

    #[test]
    fn the_next_part_never_begins_before_this_one() {
        // The bytes from the fourth to the sixteenth are not stored.
        let so_far = full(20, "qrst");
        for (after, text, next) in [
            (Some(0), "abcd", 4),
            (Some(2), "cd", 4),
            (Some(4), "qrst", 20),
            (Some(9), "qrst", 20),
            (Some(18), "st", 20),
            (Some(20), "", 20),
            (Some(30), "", 30),
            (None, "qrst", 20),
        ] {
            let (shown, after_it, _) = slice("abcd", Some(&so_far), after, 100);
            assert_eq!((shown.as_str(), after_it), (text, next), "{after:?}");
        }
        assert!(
            slice("abcd", Some(&so_far), Some(4), 100)
                .2
                .contains("12 bytes are not kept")
        );
        assert_eq!(slice("abcd", Some(&so_far), None, 2).0, "st");
        // After its end, a reader that saw more than the file contains gets nothing more.
        assert_eq!(
            slice("abcd", None, Some(30), 100),
            (String::new(), 30, String::new())
        );
    }

    #[test]
    fn the_end_that_is_kept_follows_the_file_where_nothing_is_between() {
        let so_far = full(8, "efgh");
        for (after, max, text, next) in [
            (Some(0), 100, "abcdefgh", 8),
            (Some(2), 3, "cde", 5),
            (Some(5), 100, "fgh", 8),
            (None, 6, "cdefgh", 8),
        ] {
            let (shown, after_it, _) = slice("abcd", Some(&so_far), after, max);
            assert_eq!((shown.as_str(), after_it), (text, next), "{after:?} {max}");
        }
        let (_, _, remarks) = slice("abcd", Some(&so_far), Some(2), 3);
        assert_eq!(remarks, "more came; go on with `after` 5");
    }

    #[test]
    fn a_letter_of_several_bytes_is_shown_whole() {
        assert_eq!(slice("aéb", None, Some(0), 2).0, "a");
        assert_eq!(slice("aéb", None, Some(1), 2).0, "é");
        let so_far = KeptSoFar {
            total: 3,
            stored: 3,
            end: Vec::new(),
        };
        assert_eq!(slice("aéb", Some(&so_far), Some(3), 9).0, "b");
    }
}
