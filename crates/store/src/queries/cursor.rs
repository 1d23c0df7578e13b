//! Places in lists, as text that can be handed out and is checked when it comes back.
//!
//! A cursor names its list, the database that gave it out, how far that one was, and the place. A digest at its end finds what
//! was cut or changed; it keeps nobody from making one up, and a made-up one shows nothing that the list does not.

use super::error::QueryError;

/// Which list a cursor is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum List {
    Threads,
    Turns,
}

impl List {
    const fn letter(self) -> &'static str {
        match self {
            Self::Threads => "t",
            Self::Turns => "u",
        }
    }
}

/// A place: behind which entry the page begins. Its meaning is that of its list.
pub(crate) type Key = (i64, u64);

/// Makes and reads the cursors of one database.
#[derive(Debug, Clone)]
pub(crate) struct Cursors {
    /// Names the database.
    database: String,
}

const DIGEST: usize = 8;

impl Cursors {
    pub(crate) fn new(database: [u8; 16]) -> Self {
        let database = blake3::hash(&database).to_hex();
        Self {
            database: database[..DIGEST].to_owned(),
        }
    }

    /// Writes a place; `upto` is the newest record of the database.
    pub(crate) fn write(&self, list: List, upto: u64, (first, second): Key) -> String {
        let text = format!(
            "{}.{}.{upto:x}.{first:x}.{second:x}",
            list.letter(),
            self.database
        );
        let digest = digest(&text);
        format!("{text}.{digest}")
    }

    /// Reads a place again.
    pub(crate) fn read(&self, list: List, upto: u64, cursor: &str) -> Result<Key, QueryError> {
        let bad = |why| QueryError::BadCursor {
            cursor: shown(cursor),
            why,
        };
        let whole = cursor.rsplit_once('.');
        let Some((text, _)) = whole.filter(|(text, end)| digest(text) == *end) else {
            return Err(bad("it was cut or changed"));
        };
        let parts: Vec<&str> = text.split('.').collect();
        let [letter, database, at, first, second] = parts[..] else {
            return Err(bad("it has other parts"));
        };
        if letter != list.letter() {
            return Err(bad("it is that of another list"));
        }
        if database != self.database {
            return Err(QueryError::ForeignCursor(shown(cursor)));
        }
        let number = |text| u64::from_str_radix(text, 16).map_err(|_| bad("it has no number"));
        if number(at)? > upto {
            return Err(QueryError::FutureCursor(shown(cursor)));
        }
        Ok((number(first)?.cast_signed(), number(second)?))
    }
}

fn digest(text: &str) -> String {
    blake3::hash(text.as_bytes()).to_hex()[..DIGEST].to_owned()
}

/// What is shown of a cursor that may be anything.
fn shown(cursor: &str) -> String {
    cursor.chars().take(80).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_comes_back_or_says_what_is_wrong_with_it() {
        let (ours, theirs) = (Cursors::new([1; 16]), Cursors::new([2; 16]));
        for key in [(0, 0), (-5, 7), (i64::MIN, u64::MAX), (i64::MAX, 1)] {
            let cursor = ours.write(List::Threads, 9, key);
            assert_eq!(ours.read(List::Threads, 9, &cursor), Ok(key));
            assert_eq!(
                ours.read(List::Threads, 8, &cursor),
                Err(QueryError::FutureCursor(cursor.clone()))
            );
            assert_eq!(
                theirs.read(List::Threads, 9, &cursor),
                Err(QueryError::ForeignCursor(cursor.clone()))
            );
            let other = ours.read(List::Turns, 9, &cursor);
            assert!(matches!(other, Err(QueryError::BadCursor { .. })));
            for end in 0..cursor.len() {
                let cut = ours.read(List::Threads, 9, &cursor[..end]);
                assert!(matches!(cut, Err(QueryError::BadCursor { .. })), "{end}");
            }
        }
        for wrong in ["", ".", "....", "t.1.2.3.4.5", "\u{1f600}.x", "٣.a.b.c.d.e"] {
            let read = ours.read(List::Threads, 9, wrong);
            assert!(matches!(read, Err(QueryError::BadCursor { .. })), "{wrong}");
        }
    }
}
