//! A small random generator (SplitMix64): the same numbers for the same seed on every machine.

/// The generator.
#[derive(Debug)]
pub struct Rng(u64);

impl Rng {
    /// From a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// From `SPILLWAY_SEED`, else from a seed that no other run has. Says which, for the one who has to repeat it.
    pub fn of_this_run() -> Self {
        let given = std::env::var("SPILLWAY_SEED").ok();
        let seed = given
            .map_or_else(|| rand_seed() % 1_000_000, |text| text.parse().expect("SPILLWAY_SEED"));
        println!("SPILLWAY_SEED={seed}");
        Self(seed)
    }

    /// The next number.
    #[allow(clippy::should_implement_trait, reason = "it never ends")]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    /// True once in so many times.
    pub fn one_in(&mut self, bound: u64) -> bool {
        self.below(bound) == 0
    }

    /// One of the choices.
    pub fn pick<'a>(&mut self, choices: &[&'a str]) -> &'a str {
        let index = self.below(u64::try_from(choices.len()).unwrap());
        choices[usize::try_from(index).unwrap()]
    }

    /// Puts a list in another order.
    pub fn shuffle<T>(&mut self, list: &mut [T]) {
        for last in (1..list.len()).rev() {
            let other = self.below(u64::try_from(last).unwrap() + 1);
            list.swap(last, usize::try_from(other).unwrap());
        }
    }
}

fn rand_seed() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(())
}
