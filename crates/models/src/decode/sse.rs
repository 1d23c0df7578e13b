//! Server-sent events, from bytes in chunks of any size.

use crate::decode::DecodeError;

/// One server-sent event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SseEvent {
    pub(crate) name: Option<String>,
    pub(crate) data: String,
}

/// Splits bytes into events. Comments, IDs and retry hints are ignored.
#[derive(Debug)]
pub(crate) struct SseDecoder {
    max_bytes: usize,
    line: Vec<u8>,
    /// Whether the last byte was `\r`, so that a following `\n` belongs to it.
    after_cr: bool,
    at_start: bool,
    name: Option<String>,
    data: Option<String>,
}

impl SseDecoder {
    pub(crate) fn new(max_bytes: usize) -> Self {
        Self {
            max_bytes,
            line: Vec::new(),
            after_cr: false,
            at_start: true,
            name: None,
            data: None,
        }
    }

    /// Decodes bytes and calls `each` for every completed event.
    pub(crate) fn feed(
        &mut self,
        mut bytes: &[u8],
        mut each: impl FnMut(SseEvent) -> Result<(), DecodeError>,
    ) -> Result<(), DecodeError> {
        while !bytes.is_empty() {
            if std::mem::take(&mut self.after_cr) && bytes[0] == b'\n' {
                bytes = &bytes[1..];
                continue;
            }
            let Some(end) = bytes.iter().position(|byte| matches!(byte, b'\n' | b'\r')) else {
                return self.extend(bytes);
            };
            self.extend(&bytes[..end])?;
            self.after_cr = bytes[end] == b'\r';
            bytes = &bytes[end + 1..];
            if let Some(event) = self.end_line()? {
                each(event)?;
            }
        }
        Ok(())
    }

    /// Returns the unterminated last event, if it can be decoded.
    pub(crate) fn end(&mut self) -> Option<SseEvent> {
        match self.end_line() {
            Ok(Some(event)) => Some(event),
            Ok(None) => self.take_event(),
            Err(_) => None,
        }
    }

    fn extend(&mut self, bytes: &[u8]) -> Result<(), DecodeError> {
        let buffered = self.line.len() + self.data.as_ref().map_or(0, String::len);
        if buffered.saturating_add(bytes.len()) > self.max_bytes {
            return Err(DecodeError::TooLong(self.max_bytes));
        }
        self.line.extend_from_slice(bytes);
        Ok(())
    }

    fn end_line(&mut self) -> Result<Option<SseEvent>, DecodeError> {
        let line = std::mem::take(&mut self.line);
        let mut line = line.as_slice();
        if std::mem::take(&mut self.at_start) {
            line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
        }
        if line.is_empty() {
            return Ok(self.take_event());
        }
        let line = std::str::from_utf8(line).map_err(|_| DecodeError::NotUtf8)?;
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => self.name = Some(value.to_owned()),
            "data" => match &mut self.data {
                None => self.data = Some(value.to_owned()),
                Some(data) => {
                    data.push('\n');
                    data.push_str(value);
                }
            },
            _ => {}
        }
        Ok(None)
    }

    fn take_event(&mut self) -> Option<SseEvent> {
        let name = self.name.take();
        let data = self.data.take()?;
        Some(SseEvent { name, data })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(pieces: &[&[u8]]) -> Result<Vec<(Option<String>, String)>, DecodeError> {
        let mut decoder = SseDecoder::new(64);
        let mut events = Vec::new();
        for piece in pieces {
            decoder.feed(piece, |event| {
                events.push((event.name, event.data));
                Ok(())
            })?;
        }
        events.extend(decoder.end().map(|event| (event.name, event.data)));
        Ok(events)
    }

    fn plain(data: &str) -> (Option<String>, String) {
        (None, data.to_owned())
    }

    #[test]
    fn any_split_yields_the_same_events() {
        let whole =
            "\u{feff}event: a\r\ndata: é1\r\n\r\n: note\rdata:2\rdata: 3\r\rdata: 4\n\nid: 9\n\n";
        let expected = vec![
            (Some("a".to_owned()), "é1".to_owned()),
            plain("2\n3"),
            plain("4"),
        ];
        for cut in 0..=whole.len() {
            let (a, b) = whole.as_bytes().split_at(cut);
            assert_eq!(decode(&[a, b]).unwrap(), expected, "cut at {cut}");
        }
    }

    #[test]
    fn last_event_may_lack_its_blank_line() {
        assert_eq!(decode(&[b"data: [DONE]"]).unwrap(), [plain("[DONE]")]);
        assert_eq!(decode(&[b"data: x\n"]).unwrap(), [plain("x")]);
    }

    #[test]
    fn oversized_or_non_utf8_event_is_refused() {
        let long = [b"data: ".as_slice(), &[b'x'; 70]];
        assert_eq!(decode(&long), Err(DecodeError::TooLong(64)));
        let many = "data: 0123456789\n".repeat(10);
        assert_eq!(decode(&[many.as_bytes()]), Err(DecodeError::TooLong(64)));
        assert_eq!(decode(&[b"data: \xff\n\n"]), Err(DecodeError::NotUtf8));
    }
}
