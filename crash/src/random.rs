//! Random choices from a reproducible seed.

/// A SplitMix64 generator.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// Makes a generator; the same seed gives the same choices.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns the next number.
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a number below a limit.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.draw() % limit.max(1)
    }
}
