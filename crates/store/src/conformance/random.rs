//! A small deterministic source of choices: the same seed, the same choices, on every machine.

#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Random(seed)
    }

    /// SplitMix64.
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number from 0 up to, not including, `end`.
    pub fn below(&mut self, end: u64) -> u64 {
        assert!(end > 0, "there is nothing to choose from");
        self.draw() % end
    }

    pub fn percent(&mut self, likely: u64) -> bool {
        self.below(100) < likely
    }

    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> Option<&'a T> {
        if from.is_empty() {
            return None;
        }
        from.get(self.below(from.len() as u64) as usize)
    }

    /// Each with the given likelihood, in their order.
    pub fn some_of<T: Clone>(&mut self, from: &[T], likely: u64) -> Vec<T> {
        let kept = from.iter().filter(|_| self.percent(likely));
        kept.cloned().collect()
    }
}
