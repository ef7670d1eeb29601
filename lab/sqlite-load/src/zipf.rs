//! The choice of databases: a Zipf distribution over ranks, and each phase's order of databases.

use crate::databases::mixed;

/// Pseudo-random numbers, the same for the same seed: splitmix64.
#[derive(Clone)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(1);
        mixed(self.0)
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }

    pub(crate) fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    pub(crate) fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last as u64 + 1) as usize);
        }
    }
}

/// Ranks `0..n`; rank `k` is drawn with a probability proportional to `(k + 1) ^ -theta`.
pub(crate) struct Zipf {
    /// For each rank, the probability of this rank or a lower one.
    up_to: Vec<f64>,
}

impl Zipf {
    pub(crate) fn new(n: usize, theta: f64) -> Self {
        let weights = (1..=n).map(|rank| (rank as f64).powf(-theta));
        let mut sum = 0.0;
        let mut up_to: Vec<f64> = weights
            .map(|weight| {
                sum += weight;
                sum
            })
            .collect();
        up_to.iter_mut().for_each(|it| *it /= sum);
        Self { up_to }
    }

    pub(crate) fn draw(&self, random: &mut Random) -> usize {
        let point = random.unit();
        self.up_to.partition_point(|it| *it <= point).min(self.up_to.len() - 1)
    }
}

/// The databases by rank. Each phase has another order, so the hot set moves.
pub(crate) fn orders(databases: &[usize], phases: usize, seed: u64) -> Vec<Vec<usize>> {
    let mut random = Random::new(seed);
    let mut order = databases.to_vec();
    (0..phases)
        .map(|_| {
            random.shuffle(&mut order);
            order.clone()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_come_as_often_as_they_should() {
        let (zipf, mut random) = (Zipf::new(256, 0.99), Random::new(1));
        let draws = 200_000;
        let mut counts = [0u32; 256];
        (0..draws).for_each(|_| counts[zipf.draw(&mut random)] += 1);
        let sum: f64 = (1..=256).map(|rank| f64::from(rank).powf(-0.99)).sum();
        for rank in [0, 1, 7, 31] {
            let expected = (rank as f64 + 1.0).powf(-0.99) / sum * f64::from(draws);
            let found = f64::from(counts[rank]);
            assert!((found - expected).abs() < 5.0 * expected.sqrt(), "{rank}: {found} {expected}");
        }
        assert!(counts.iter().all(|count| *count > 0));
    }

    #[test]
    fn the_hot_set_moves_and_every_database_has_a_rank() {
        let all: Vec<usize> = (0..256).collect();
        let orders = orders(&all, 3, 7);
        assert_ne!(orders[0], orders[1]);
        for mut order in orders {
            order.sort_unstable();
            assert_eq!(order, all);
        }
    }
}
