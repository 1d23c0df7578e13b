//! Cursors: positions in lists as text, validated when a client returns them.
//!
//! A cursor contains its list, the database that issued it, the newest position of that database, and the position in the list. A digest at its end
//! detects truncation and changes. The digest is no secret, so a client can forge a cursor; a forged cursor shows nothing that the list does not.

/// Why a cursor is rejected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CursorError {
    /// The text was truncated or changed, or is a cursor of another list.
    #[error("`{cursor}` is not a cursor of this list ({why}); begin again without one")]
    Bad {
        /// The cursor as the client sent it, truncated.
        cursor: String,
        /// Completes the sentence "it is not a cursor, because …".
        why: &'static str,
    },
    /// Another database issued the cursor.
    #[error("the cursor `{0}` was issued by another database; begin again without one")]
    Foreign(String),
    /// The cursor is newer than the database, which was restored from an older copy.
    #[error(
        "the cursor `{0}` is newer than this database, which was restored from an older copy; begin again without one"
    )]
    Future(String),
}

/// The list that a cursor belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CursorKind {
    Threads,
    Turns,
    Feed,
}

impl CursorKind {
    const fn letter(self) -> &'static str {
        match self {
            Self::Threads => "t",
            Self::Turns => "u",
            Self::Feed => "f",
        }
    }
}

/// A position: the page begins after this entry. Each list defines the meaning.
pub(crate) type Key = (i64, u64);

/// Encodes and decodes the cursors of one database.
#[derive(Debug, Clone)]
pub struct Cursors {
    /// Names the database.
    database: String,
}

const DIGEST: usize = 8;

impl Cursors {
    pub fn new(database: [u8; 16]) -> Self {
        let database = blake3::hash(&database).to_hex();
        Self {
            database: database[..DIGEST].to_owned(),
        }
    }

    /// Encodes a position; `upto` is the newest record of the database.
    pub fn write(&self, list: CursorKind, upto: u64, (first, second): Key) -> String {
        let text = format!(
            "{}.{}.{upto:x}.{first:x}.{second:x}",
            list.letter(),
            self.database
        );
        let digest = digest(&text);
        format!("{text}.{digest}")
    }

    /// Decodes a position.
    pub fn read(&self, list: CursorKind, upto: u64, cursor: &str) -> Result<Key, CursorError> {
        let bad = |why| CursorError::Bad {
            cursor: shown(cursor),
            why,
        };
        let whole = cursor.rsplit_once('.');
        let Some((text, _)) = whole.filter(|(text, end)| digest(text) == *end) else {
            return Err(bad("it was truncated or changed"));
        };
        let parts: Vec<&str> = text.split('.').collect();
        let [letter, database, at, first, second] = parts[..] else {
            return Err(bad("it has the wrong number of parts"));
        };
        if letter != list.letter() {
            return Err(bad("it belongs to another list"));
        }
        if database != self.database {
            return Err(CursorError::Foreign(shown(cursor)));
        }
        let number = |text| u64::from_str_radix(text, 16).map_err(|_| bad("a number is invalid"));
        if number(at)? > upto {
            return Err(CursorError::Future(shown(cursor)));
        }
        Ok((number(first)?.cast_signed(), number(second)?))
    }
}

pub(crate) fn digest(text: &str) -> String {
    blake3::hash(text.as_bytes()).to_hex()[..DIGEST].to_owned()
}

/// Truncates an untrusted cursor for an error message.
fn shown(cursor: &str) -> String {
    cursor.chars().take(80).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursor_round_trips_or_fails_with_a_reason() {
        let (ours, theirs) = (Cursors::new([1; 16]), Cursors::new([2; 16]));
        for key in [(0, 0), (-5, 7), (i64::MIN, u64::MAX), (i64::MAX, 1)] {
            let cursor = ours.write(CursorKind::Threads, 9, key);
            assert_eq!(ours.read(CursorKind::Threads, 9, &cursor), Ok(key));
            assert_eq!(
                ours.read(CursorKind::Threads, 8, &cursor),
                Err(CursorError::Future(cursor.clone()))
            );
            assert_eq!(
                theirs.read(CursorKind::Threads, 9, &cursor),
                Err(CursorError::Foreign(cursor.clone()))
            );
            let other = ours.read(CursorKind::Turns, 9, &cursor);
            assert!(matches!(other, Err(CursorError::Bad { .. })));
            for end in 0..cursor.len() {
                let cut = ours.read(CursorKind::Threads, 9, &cursor[..end]);
                assert!(matches!(cut, Err(CursorError::Bad { .. })), "{end}");
            }
        }
        for wrong in ["", ".", "....", "t.1.2.3.4.5", "\u{1f600}.x", "٣.a.b.c.d.e"] {
            let read = ours.read(CursorKind::Threads, 9, wrong);
            assert!(matches!(read, Err(CursorError::Bad { .. })), "{wrong}");
        }
    }
}
