//! Output of a command: the beginning and the end are retained, and new output is available while the command runs.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// The last text that is shown when the limit of live output is reached.
pub const NO_MORE_SHOWN: &str = "\n[more output is not shown while the command runs]\n";

/// Receives the complete output, of which [`Output`] retains only the beginning and the end.
pub trait OutputSink: Send {
    /// Receives the next bytes. The implementation records its own errors; they do not stop the program.
    fn take(&mut self, bytes: &[u8]);
}

/// When an [`OutputSink`] starts to receive bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SinkFrom {
    /// From the first byte on.
    Start,
    /// Once the output exceeds the retained amount. It then receives all earlier bytes too.
    Cut,
}

struct SinkState {
    sink: Box<dyn OutputSink>,
    is_receiving: bool,
}

/// The output of a command, written by the thread that reads its pipe.
pub struct Output {
    retained: Mutex<Retained>,
    /// Locked before `retained`, and only by the writer, so that a slow disk does not block readers.
    sink: Mutex<Option<SinkState>>,
    changed: Notify,
}

struct Retained {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    /// Size in bytes of each half, the beginning and the end.
    half: usize,
    total: u64,
    /// Bytes that were not shown yet.
    unshown: Vec<u8>,
    /// How many bytes may still be shown.
    showable: usize,
    /// How many bytes may wait to be shown.
    max_unshown: usize,
    is_closed: bool,
}

impl Output {
    pub fn new(max_retained: usize, max_shown: usize) -> Self {
        Self::bounded(max_retained, max_shown, usize::MAX)
    }

    /// An output without a limit on the bytes shown. Bytes that arrive while too many wait to be shown are retained but not shown.
    pub fn unending(max_retained: usize, max_waiting: usize) -> Self {
        Self::bounded(max_retained, usize::MAX, max_waiting)
    }

    fn bounded(max_retained: usize, max_shown: usize, max_unshown: usize) -> Self {
        let retained = Retained {
            head: Vec::new(),
            tail: VecDeque::new(),
            half: max_retained / 2,
            total: 0,
            unshown: Vec::new(),
            showable: max_shown,
            max_unshown,
            is_closed: false,
        };
        Self {
            retained: Mutex::new(retained),
            sink: Mutex::new(None),
            changed: Notify::new(),
        }
    }

    /// Sends the complete output to `sink`, which is dropped when the output ends.
    #[must_use]
    pub fn with_sink(self, from: SinkFrom, sink: impl OutputSink + 'static) -> Self {
        let state = SinkState {
            sink: Box::new(sink),
            is_receiving: from == SinkFrom::Start,
        };
        Self {
            sink: Mutex::new(Some(state)),
            ..self
        }
    }

    pub fn push(&self, bytes: &[u8]) {
        let mut sink = self.lock_sink();
        let before = {
            let mut retained = self.lock();
            let before = retained.all_before(bytes);
            retained.push(bytes);
            before
        };
        if let Some(state) = sink.as_mut() {
            if let (false, Some(before)) = (state.is_receiving, before) {
                state.sink.take(&before);
                state.is_receiving = true;
            }
            if state.is_receiving {
                state.sink.take(bytes);
            }
        }
        drop(sink);
        self.changed.notify_one();
    }

    /// Marks the output as complete.
    pub fn close(&self) {
        drop(self.lock_sink().take());
        self.lock().is_closed = true;
        self.changed.notify_one();
    }

    /// Waits for new output to show; `None` after the end.
    pub async fn fresh(&self) -> Option<String> {
        loop {
            {
                let mut retained = self.lock();
                let text = retained.take_unshown();
                if !text.is_empty() {
                    return Some(text);
                }
                if retained.is_closed {
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

    fn lock(&self) -> MutexGuard<'_, Retained> {
        self.retained.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_sink(&self) -> MutexGuard<'_, Option<SinkState>> {
        self.sink.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Retained {
    /// Returns all bytes before `bytes` if these are the first that exceed the retained amount.
    fn all_before(&self, bytes: &[u8]) -> Option<Vec<u8>> {
        let limit = 2 * self.half as u64;
        let is_first_cut = self.total <= limit && self.total + bytes.len() as u64 > limit;
        is_first_cut.then(|| {
            let (first, second) = self.tail.as_slices();
            [&self.head, first, second].concat()
        })
    }

    fn push(&mut self, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        let room = self.max_unshown.saturating_sub(self.unshown.len());
        let shown = &bytes[..bytes.len().min(self.showable).min(room)];
        if !shown.is_empty() {
            self.unshown.extend_from_slice(shown);
            self.showable -= shown.len();
            if self.showable == 0 {
                self.unshown.extend_from_slice(NO_MORE_SHOWN.as_bytes());
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
    fn take_unshown(&mut self) -> String {
        let complete = match std::str::from_utf8(&self.unshown) {
            Err(error) if error.error_len().is_none() && !self.is_closed => error.valid_up_to(),
            _ => self.unshown.len(),
        };
        let rest = self.unshown.split_off(complete);
        let taken = std::mem::replace(&mut self.unshown, rest);
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
        let retained = self.head.len() + self.tail.len();
        self.total.saturating_sub(retained as u64)
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
    fn beginning_and_end_are_retained() {
        let output = Output::new(10, 0);
        output.push(b"0123456");
        assert_eq!(output.text(), ("0123456".to_owned(), None));
        output.push(b"789abcdef");
        let (text, remark) = output.text();
        assert_eq!(text, "01234\n[… 6 bytes left out …]\nbcdef");
        assert!(remark.unwrap().contains("had 16 bytes"));
    }

    #[tokio::test]
    async fn split_characters_are_joined_and_live_output_is_limited() {
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
    async fn unshown_output_is_limited() {
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
    struct CollectingSink(std::sync::Arc<Mutex<Vec<u8>>>);

    impl OutputSink for CollectingSink {
        fn take(&mut self, bytes: &[u8]) {
            self.0.lock().unwrap().extend_from_slice(bytes);
        }
    }

    proptest! {
        #[test]
        fn sink_receives_all_bytes_from_the_start_or_after_the_first_cut(
            pieces in prop::collection::vec(prop::collection::vec(b'a'..=b'z', 0..40), 0..20),
            max in 0_usize..60,
        ) {
            for from in [SinkFrom::Start, SinkFrom::Cut] {
                let taken = std::sync::Arc::default();
                let output = Output::new(max, 0).with_sink(from, CollectingSink(std::sync::Arc::clone(&taken)));
                for piece in &pieces {
                    output.push(piece);
                }
                let is_complete = output.text().1.is_none();
                let expected = match from {
                    SinkFrom::Cut if is_complete => Vec::new(),
                    SinkFrom::Start | SinkFrom::Cut => pieces.concat(),
                };
                prop_assert_eq!(&*taken.lock().unwrap(), &expected);
            }
        }

        #[test]
        fn retained_output_does_not_depend_on_how_it_is_split(
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
