//! A part of a background command's output.

use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;

use serde_json::{Value, json};
use windlass_core::traits::SecretPlaces;

use super::safe_cuts::OutputPiece;
use crate::outputs::OutputExtent;
use crate::tool::with_remarks;

/// The output of a command: its file, followed by the end in memory while the command runs and the file is full.
pub(super) struct CommandOutput<'a, F> {
    pub(super) file: F,
    /// Length of the file in bytes.
    pub(super) bytes: u64,
    /// Current extent of a running command's output.
    pub(super) extent: Option<&'a OutputExtent>,
    pub(super) places: Option<&'a dyn SecretPlaces>,
}

/// A part of an output.
#[derive(Debug)]
pub(super) struct OutputSlice {
    pub(super) text: String,
    /// Offset of the next part.
    pub(super) next: u64,
    pub(super) remarks: Vec<String>,
}

impl<F: Read + Seek> CommandOutput<'_, F> {
    /// Returns the output after the given offset, or the end. It is never cut inside a secret.
    pub(super) fn slice(
        &mut self,
        after: Option<u64>,
        max_bytes: usize,
    ) -> io::Result<OutputSlice> {
        let max = max_bytes as u64;
        let end_bytes = self.extent.map_or(0, |extent| extent.end.len() as u64);
        let (stored, total) = match self.extent {
            Some(extent) if end_bytes > 0 => (extent.stored.min(self.bytes), extent.total),
            _ => (self.bytes, self.bytes),
        };
        let end_from = total - end_bytes;
        let requested = after.map_or(total.saturating_sub(max), |after| after.min(total));
        let has_gap = end_from > stored;
        // The contiguous part that contains the requested offset.
        let part = match has_gap {
            true if after.is_none() || requested >= stored => end_from..total,
            true => 0..stored,
            false => 0..total,
        };
        let start = requested.max(part.start);
        let margin = self.places.map_or(0, SecretPlaces::longest) as u64;
        let from = start.saturating_sub(margin).max(part.start);
        let to = (start + max + 2 * margin).min(part.end);
        let window = self.read(from..to, stored, end_from)?;
        let may_grow = self.extent.is_some() || part.end < total;
        let piece = OutputPiece {
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
        Ok(OutputSlice {
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
            let length = range.end.min(stored) - range.start;
            self.file.by_ref().take(length).read_to_end(&mut read)?;
        }
        let end = self.extent.map_or(&[][..], |extent| &extent.end);
        let offset = |at: u64| usize::try_from(at.saturating_sub(end_from)).unwrap_or(usize::MAX);
        let range_of_end = offset(range.start).min(end.len())..offset(range.end).min(end.len());
        read.extend_from_slice(&end[range_of_end]);
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
        match (self.extent, after) {
            (Some(extent), None) if part.start > 0 => remarks.push(format!(
                "{} bytes were printed; after the first {} only the end is stored, which is shown",
                extent.total, extent.stored
            )),
            (_, None) if start > 0 => {
                remarks.push(format!("the first {start} bytes are not shown"));
            }
            (_, Some(after)) if after < part.start => {
                remarks.push(format!("{} bytes are not stored", part.start - after));
            }
            _ => {}
        }
        if is_full {
            remarks.push(format!("there is more; continue with `after` {next}"));
        }
        if let (Some(extent), true) = (self.extent, after.is_some() && part.start == 0)
            && extent.total - extent.end.len() as u64 > part.end
        {
            remarks.push(format!(
                "after the first {} bytes only the end is stored; call without `after` to see it",
                extent.stored
            ));
        }
        remarks
    }
}

impl OutputSlice {
    pub(super) fn into_result(self, mut command: Value, network: Option<String>) -> Value {
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
        extent: Option<&OutputExtent>,
        after: Option<u64>,
        max: usize,
    ) -> (String, u64, String) {
        let mut printed = CommandOutput {
            file: Cursor::new(file.as_bytes()),
            bytes: file.len() as u64,
            extent,
            places: None,
        };
        let slice = printed.slice(after, max).unwrap();
        (slice.text, slice.next, slice.remarks.join("; "))
    }

    fn full(total: u64, end: &str) -> OutputExtent {
        OutputExtent {
            total,
            stored: 4,
            end: end.as_bytes().to_vec(),
        }
    }

    #[test]
    fn next_part_never_begins_before_the_current_one() {
        // The bytes from the fourth to the sixteenth are not stored.
        let extent = full(20, "qrst");
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
            let (shown, after_it, _) = slice("abcd", Some(&extent), after, 100);
            assert_eq!((shown.as_str(), after_it), (text, next), "{after:?}");
        }
        assert!(
            slice("abcd", Some(&extent), Some(4), 100)
                .2
                .contains("12 bytes are not stored")
        );
        assert_eq!(slice("abcd", Some(&extent), None, 2).0, "st");
        // After its end, a reader that saw more than the file contains gets nothing more.
        assert_eq!(
            slice("abcd", None, Some(30), 100),
            (String::new(), 30, String::new())
        );
    }

    #[test]
    fn contiguous_end_follows_the_file() {
        let extent = full(8, "efgh");
        for (after, max, text, next) in [
            (Some(0), 100, "abcdefgh", 8),
            (Some(2), 3, "cde", 5),
            (Some(5), 100, "fgh", 8),
            (None, 6, "cdefgh", 8),
        ] {
            let (shown, after_it, _) = slice("abcd", Some(&extent), after, max);
            assert_eq!((shown.as_str(), after_it), (text, next), "{after:?} {max}");
        }
        let (_, _, remarks) = slice("abcd", Some(&extent), Some(2), 3);
        assert_eq!(remarks, "there is more; continue with `after` 5");
    }

    #[test]
    fn multibyte_character_is_not_split() {
        assert_eq!(slice("aéb", None, Some(0), 2).0, "a");
        assert_eq!(slice("aéb", None, Some(1), 2).0, "é");
        let extent = OutputExtent {
            total: 3,
            stored: 3,
            end: Vec::new(),
        };
        assert_eq!(slice("aéb", Some(&extent), Some(3), 9).0, "b");
    }
}
