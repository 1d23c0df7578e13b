//! A small generator whose whole state is its seed.

/// SplitMix64: every seed gives a full period, and near seeds give unrelated streams.
#[derive(Debug, Clone)]
pub struct SplitMix64 {
    state: u64,
}

impl SplitMix64 {
    /// Starts the stream of a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// Starts the stream of one iteration of a seed, so that each can be repeated without those before it.
    #[must_use]
    pub fn of_iteration(seed: u64, iteration: u64) -> Self {
        let mut base = Self::new(seed);
        Self::new(base.next_u64() ^ Self::new(iteration).next_u64())
    }

    /// Returns the next number.
    pub fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a string of at most `longest` bytes; short ones are as likely as long ones.
    pub fn bytes(&mut self, longest: usize) -> Vec<u8> {
        let length = self.next_u64() % (longest as u64 + 1);
        (0..length)
            .map(|_| self.next_u64().to_le_bytes()[0])
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seed_and_iteration_determine_the_bytes() {
        let bytes = |seed, iteration| SplitMix64::of_iteration(seed, iteration).bytes(64);
        assert_eq!(bytes(7, 3), bytes(7, 3));
        assert_ne!(
            SplitMix64::of_iteration(7, 3).next_u64(),
            SplitMix64::of_iteration(7, 4).next_u64()
        );
        assert_ne!(
            SplitMix64::of_iteration(7, 3).next_u64(),
            SplitMix64::of_iteration(8, 3).next_u64()
        );
        assert!((0..1_000).all(|n| bytes(1, n).len() <= 64));
    }
}
