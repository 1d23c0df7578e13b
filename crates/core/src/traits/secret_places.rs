//! Positions of secrets in a text, for tools that show part of a text.

use std::ops::Range;

/// Finds the secrets that a session must not show. Tool results are masked, but a truncated secret would not be recognized: a tool that shows a part
/// of a text asks here where it may cut. Positions are byte offsets.
pub trait SecretPlaces: Send + Sync {
    /// Returns the maximum length of a secret in any encoding, in bytes.
    fn longest(&self) -> usize;

    /// Returns the range covered by all secrets that span a position.
    fn around(&self, text: &str, place: usize) -> Option<Range<usize>>;

    /// Returns the length of the prefix that cannot become part of a secret, whatever follows.
    fn settled(&self, text: &str) -> usize;

    /// Returns the first offset that cannot be inside a secret that began before the text.
    fn begun(&self, text: &str) -> usize;

    /// Returns the ranges of secrets, in order, each with its mask.
    fn masks<'a>(&'a self, text: &str) -> Vec<(Range<usize>, &'a str)>;

    /// Returns the first position at or after this one that is outside of every secret.
    fn outside_from(&self, text: &str, mut place: usize) -> usize {
        while let Some(around) = self.around(text, place) {
            place = around.end;
        }
        place
    }

    /// Returns the last position at or before this one that is outside of every secret.
    fn outside_before(&self, text: &str, mut place: usize) -> usize {
        while let Some(around) = self.around(text, place) {
            place = around.start;
        }
        place
    }
}
