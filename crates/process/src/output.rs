//! Output of a command: the beginning and the end are retained, and new output is available while the command runs.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// The last text that is shown when the limit of live output is reached.
pub const NO_MORE_SHOWN: &str = "\n[more output is not shown while the command runs]\n";

/// Receives the complete output, of which [`Output`] retains only the beginning and the end.
pub trait WholeOutput: Send {
    /// Receives the next bytes. The implementation records its own errors; they do not stop the program.
    fn take(&mut self, bytes: &[u8]);
}

/// When a [`WholeOutput`] starts to receive bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WholeFrom {
    /// From the first byte on.
    Start,
    /// Once the output exceeds the retained amount. It then receives all earlier bytes too.
    Cut,
}

struct Whole {
    taker: Box<dyn WholeOutput>,
    has_begun: bool,
}

/// The output of a command, written by the thread that reads its pipe.
pub struct Output {
    kept: Mutex<Kept>,
    /// Locked before `kept`, and only by the writer, so that a slow disk does not block readers.
    whole: Mutex<Option<Whole>>,
    changed: Notify,
}

struct Kept {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    /// Size in bytes of each half, the beginning and the end.
    half: usize,
    total: u64,
    /// Bytes that were not shown yet.
    fresh: Vec<u8>,
    /// How many bytes may still be shown.
    showable: usize,
    /// How many bytes may wait to be shown.
    max_fresh: usize,
    is_closed: bool,
}

impl Output {
    pub fn new(max_kept: usize, max_shown: usize) -> Self {
        Self::bounded(max_kept, max_shown, usize::MAX)
    }

    /// An output without a limit on the bytes shown. Bytes that arrive while too many wait to be shown are retained but not shown.
    pub fn unending(max_kept: usize, max_waiting: usize) -> Self {
        Self::bounded(max_kept, usize::MAX, max_waiting)
    }

    fn bounded(max_kept: usize, max_shown: usize, max_fresh: usize) -> Self {
        let kept = Kept {
            head: Vec::new(),
            tail: VecDeque::new(),
            half: max_kept / 2,
            total: 0,
            fresh: Vec::new(),
            showable: max_shown,
            max_fresh,
            is_closed: false,
        };
        Self {
            kept: Mutex::new(kept),
            whole: Mutex::new(None),
            changed: Notify::new(),
        }
    }

    /// Sends the complete output to `taker`, which is dropped when the output ends.
    #[must_use]
    pub fn with_whole(self, from: WholeFrom, taker: impl WholeOutput + 'static) -> Self {
        let whole = Whole {
            taker: Box::new(taker),
            has_begun: from == WholeFrom::Start,
        };
        Self {
            whole: Mutex::new(Some(whole)),
            ..self
        }
    }

    pub fn push(&self, bytes: &[u8]) {
        let mut whole = self.lock_whole();
        let before = {
            let mut kept = self.lock();
            let before = kept.all_before(bytes);
            kept.push(bytes);
            before
        };
        if let Some(whole) = whole.as_mut() {
            if let (false, Some(before)) = (whole.has_begun, before) {
                whole.taker.take(&before);
                whole.has_begun = true;
            }
            if whole.has_begun {
                whole.taker.take(bytes);
            }
        }
        drop(whole);
        self.changed.notify_one();
    }

    /// Marks the output as complete.
    pub fn close(&self) {
        drop(self.lock_whole().take());
        self.lock().is_closed = true;
        self.changed.notify_one();
    }

    /// Waits for new output to show; `None` after the end.
    pub async fn fresh(&self) -> Option<String> {
        loop {
            {
                let mut kept = self.lock();
                let text = kept.take_fresh();
                if !text.is_empty() {
                    return Some(text);
                }
                if kept.is_closed {
                    return None;
                }
            }
            self.changed.notified().await;
        }
    }

    /// Waits for the end of the output.
    pub async fn closed(&self) {
        while !self.lock().is_closed {
            self.changed.notified().await;
        }
    }

    /// Returns the text, and a note about omitted bytes if there are any.
    pub fn text(&self) -> (String, Option<String>) {
        self.excerpt().text()
    }

    /// Returns the retained bytes.
    pub fn excerpt(&self) -> Excerpt {
        self.lock().excerpt()
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_whole(&self) -> MutexGuard<'_, Option<Whole>> {
        self.whole.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    /// Returns all bytes before `bytes` if these are the first that exceed the retained amount.
    fn all_before(&self, bytes: &[u8]) -> Option<Vec<u8>> {
        let room = 2 * self.half as u64;
        let is_cut_now = self.total <= room && self.total + bytes.len() as u64 > room;
        is_cut_now.then(|| {
            let (first, second) = self.tail.as_slices();
            [&self.head, first, second].concat()
        })
    }

    fn push(&mut self, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        let room = self.max_fresh.saturating_sub(self.fresh.len());
        let shown = &bytes[..bytes.len().min(self.showable).min(room)];
        if !shown.is_empty() {
            self.fresh.extend_from_slice(shown);
            self.showable -= shown.len();
            if self.showable == 0 {
                self.fresh.extend_from_slice(NO_MORE_SHOWN.as_bytes());
            }
        }
        let to_head = bytes.len().min(self.half - self.head.len());
        self.head.extend_from_slice(&bytes[..to_head]);
        let rest = &bytes[to_head..];
        let rest = &rest[rest.len().saturating_sub(self.half)..];
        let over = (self.tail.len() + rest.len()).saturating_sub(self.half);
        self.tail.drain(..over);
        self.tail.extend(rest);
    }

    /// Takes the bytes not shown yet, up to the last complete character.
    fn take_fresh(&mut self) -> String {
        let whole = match std::str::from_utf8(&self.fresh) {
            Err(error) if error.error_len().is_none() && !self.is_closed => error.valid_up_to(),
            _ => self.fresh.len(),
        };
        let rest = self.fresh.split_off(whole);
        let taken = std::mem::replace(&mut self.fresh, rest);
        String::from_utf8_lossy(&taken).into_owned()
    }

    fn excerpt(&self) -> Excerpt {
        Excerpt {
            head: self.head.clone(),
            tail: self.tail.iter().copied().collect(),
            total: self.total,
        }
    }
}

/// The beginning and the end of an output. A caller may shorten both; [`left_out`](Self::left_out) then grows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Excerpt {
    pub head: Vec<u8>,
    pub tail: Vec<u8>,
    /// Length of the complete output in bytes.
    pub total: u64,
}

impl Excerpt {
    /// Returns the number of bytes omitted between the two.
    pub fn left_out(&self) -> u64 {
        let kept = self.head.len() + self.tail.len();
        self.total.saturating_sub(kept as u64)
    }

    /// Returns the text, and a note about omitted bytes if there are any.
    pub fn text(&self) -> (String, Option<String>) {
        let left_out = self.left_out();
        let mut bytes = self.head.clone();
        if left_out > 0 {
            let gap = format!("\n[… {left_out} bytes left out …]\n");
            bytes.extend_from_slice(gap.as_bytes());
        }
        bytes.extend_from_slice(&self.tail);
        let remark = format!(
            "the output had {} bytes; the first {} and the last {} are shown",
            self.total,
            self.head.len(),
            self.tail.len()
        );
        let text = String::from_utf8_lossy(&bytes).into_owned();
        (text, (left_out > 0).then_some(remark))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn beginning_and_end_are_kept() {
        let output = Output::new(10, 0);
        output.push(b"0123456");
        assert_eq!(output.text(), ("0123456".to_owned(), None));
        output.push(b"789abcdef");
        let (text, remark) = output.text();
        assert_eq!(text, "01234\n[… 6 bytes left out …]\nbcdef");
        assert!(remark.unwrap().contains("had 16 bytes"));
    }

    #[tokio::test]
    async fn a_character_in_two_pieces_is_shown_whole_and_a_flood_is_not_shown() {
        let output = Output::new(100, 6);
        output.push(b"a\xc3");
        assert_eq!(output.fresh().await.unwrap(), "a");
        output.push(b"\xa9bcdefgh");
        let shown = output.fresh().await.unwrap();
        assert_eq!(shown, format!("ébcd{NO_MORE_SHOWN}"));
        output.push(b"never shown");
        output.close();
        assert_eq!(output.fresh().await, None);
    }

    #[tokio::test]
    async fn only_so_much_waits_to_be_shown() {
        let output = Output::unending(4, 3);
        for _ in 0..1_000 {
            output.push(b"abcd");
        }
        assert_eq!(output.fresh().await.unwrap(), "abc");
        output.push(b"ef");
        assert_eq!(output.fresh().await.unwrap(), "ef");
        assert!(output.text().0.ends_with("ef"));
    }

    /// Collects everything in a vector.
    struct Taken(std::sync::Arc<Mutex<Vec<u8>>>);

    impl WholeOutput for Taken {
        fn take(&mut self, bytes: &[u8]) {
            self.0.lock().unwrap().extend_from_slice(bytes);
        }
    }

    proptest! {
        #[test]
        fn the_whole_is_given_away_from_the_start_or_once_something_is_left_out(
            pieces in prop::collection::vec(prop::collection::vec(b'a'..=b'z', 0..40), 0..20),
            max in 0_usize..60,
        ) {
            for from in [WholeFrom::Start, WholeFrom::Cut] {
                let taken = std::sync::Arc::default();
                let output = Output::new(max, 0).with_whole(from, Taken(std::sync::Arc::clone(&taken)));
                for piece in &pieces {
                    output.push(piece);
                }
                let is_whole = output.text().1.is_none();
                let expected = match from {
                    WholeFrom::Cut if is_whole => Vec::new(),
                    WholeFrom::Start | WholeFrom::Cut => pieces.concat(),
                };
                prop_assert_eq!(&*taken.lock().unwrap(), &expected);
            }
        }

        #[test]
        fn whatever_the_pieces_the_same_is_kept(
            pieces in prop::collection::vec(prop::collection::vec(b'a'..=b'z', 0..40), 0..20),
            max in 0_usize..60,
        ) {
            let output = Output::new(max, 0);
            for piece in &pieces {
                output.push(piece);
            }
            let whole = pieces.concat();
            let at_once = Output::new(max, 0);
            at_once.push(&whole);
            prop_assert_eq!(output.text(), at_once.text());
            let (text, remark) = output.text();
            prop_assert_eq!(remark.is_none(), text.as_bytes() == whole);
            prop_assert!(remark.is_none() || whole.len() > max / 2 * 2);
        }
    }
}
