//! Lines of server-sent events.

/// A line that the client uses.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum SseLine {
    /// The data of an event. Windlass writes it as one line.
    Data(Vec<u8>),
    /// The text of a comment.
    Comment(Vec<u8>),
}

/// Splits a body into lines, independently of its parts.
#[derive(Debug, Default)]
pub(crate) struct SseLines {
    bytes: Vec<u8>,
    /// The offset of the next line.
    start: usize,
    /// The offset up to which its end was searched.
    searched: usize,
}

impl SseLines {
    pub(crate) fn push(&mut self, part: &[u8]) {
        self.bytes.drain(..self.start);
        self.searched -= self.start;
        self.start = 0;
        self.bytes.extend_from_slice(part);
    }

    /// Returns the next line; `None` until more of the body arrives.
    pub(crate) fn next(&mut self) -> Option<SseLine> {
        loop {
            let rest = &self.bytes[self.searched..];
            let Some(end) = rest.iter().position(|byte| *byte == b'\n') else {
                self.searched = self.bytes.len();
                return None;
            };
            let end = self.searched + end;
            let line = self.bytes[self.start..end].trim_ascii_end();
            let value = |prefix: &[u8]| {
                let value = line.strip_prefix(prefix)?;
                Some(value.trim_ascii_start().to_vec())
            };
            let line = value(b"data:").map(SseLine::Data);
            let line = line.or_else(|| value(b":").map(SseLine::Comment));
            (self.start, self.searched) = (end + 1, end + 1);
            if line.is_some() {
                return line;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_do_not_depend_on_the_parts_of_the_body() {
        let text = b": caught-up 7\n\nid: 1\nevent: x\ndata: {\"a\":1}\n\nid: 2\r\ndata:{}\r\n\r\n";
        for size in 1..text.len() {
            let mut lines = SseLines::default();
            let mut found = Vec::new();
            for part in text.chunks(size) {
                lines.push(part);
                while let Some(line) = lines.next() {
                    found.push(line);
                }
            }
            let expected = [
                SseLine::Comment(b"caught-up 7".to_vec()),
                SseLine::Data(b"{\"a\":1}".to_vec()),
                SseLine::Data(b"{}".to_vec()),
            ];
            assert_eq!(found, expected, "{size}");
        }
    }
}
