//! Where secrets stand in a text, for tools that show a part of it.

use std::ops::Range;

/// Knows the secrets that a session must not show. They are masked in what a tool returns, but half of a secret has no mask: a tool that shows a part of a text
/// asks here where it may cut. Places are counted in bytes.
pub trait SecretPlaces: Send + Sync {
    /// Returns how many bytes a secret has at most, in whatever form it is written.
    fn longest(&self) -> usize;

    /// Returns what is covered by all secrets together that stand on both sides of a place.
    fn around(&self, text: &str, place: usize) -> Option<Range<usize>>;

    /// Returns how much of a text cannot become part of a secret, whatever follows.
    fn settled(&self, text: &str) -> usize;

    /// Returns from where on a text cannot be the rest of a secret, whatever came before.
    fn begun(&self, text: &str) -> usize;

    /// Returns where secrets stand that no tool may show, one behind the other, with what is shown in the place of each.
    fn masks<'a>(&'a self, text: &str) -> Vec<(Range<usize>, &'a str)>;

    /// Returns the first place from this one on that is inside of no secret.
    fn outside_from(&self, text: &str, mut place: usize) -> usize {
        while let Some(around) = self.around(text, place) {
            place = around.end;
        }
        place
    }

    /// Returns the last place up to this one that is inside of no secret.
    fn outside_before(&self, text: &str, mut place: usize) -> usize {
        while let Some(around) = self.around(text, place) {
            place = around.start;
        }
        place
    }
}
