//! A record of births and deaths that begins and ends with the same population.

use crate::patterns::watched::Table;
use rand::rngs::StdRng;
use rand::{Rng, RngExt};

/// A line of a profile: the objects of one size.
pub(super) struct Size {
    bytes: u32,
    /// Births per unit of time.
    rate: f64,
    /// Mean number of live objects.
    alive: f64,
}

/// Parses a profile: sizes with live objects, of 8 bytes (a mark) or more. `None` if a line is bad.
pub(super) fn parse(text: &str) -> Option<Vec<Size>> {
    let size = |line: &str| {
        let mut numbers = line.split(',').map(|number| number.trim().parse::<f64>());
        let mut next = || numbers.next()?.ok();
        let (bytes, rate, alive) = (next()?, next()?, next()?);
        Some(Size { bytes: (bytes as u32).max(size_of::<u64>() as u32), rate, alive })
    };
    let sizes: Option<Vec<Size>> = text.lines().map(size).collect();
    Some(sizes?.into_iter().filter(|size| size.alive > 0.0).collect())
}

/// The birth of an object of a size, or the death of an object.
#[derive(Clone, Copy)]
pub(super) struct Op {
    pub(super) slot: u32,
    pub(super) size: u32,
}

impl Op {
    pub(super) const DEATH: u32 = 0;
}

/// Births and deaths of objects. A slot is a number by which the record knows one live object.
pub(super) struct Record {
    /// The bytes of the object in each slot at the beginning, and at the end.
    pub(super) population: Table<u32>,
    pub(super) live_bytes: u64,
    pub(super) slots: usize,
    ops: Table<Op>,
    length: usize,
}

impl Record {
    /// Draws a population of about `live` bytes, and `events` births and deaths.
    pub(super) fn new(profile: &[Size], live: f64, events: usize, random: &mut StdRng) -> Self {
        let scale = live / profile.iter().map(|it| f64::from(it.bytes) * it.alive).sum::<f64>();
        let mut living = Living::new(profile, scale, events, random);
        let population = living.objects.len() - events;
        let mut bytes = Table::new(population);
        for (slot, size) in bytes.iter_mut().enumerate() {
            *size = profile[living.objects[slot].size as usize].bytes;
        }
        let live_bytes = bytes.iter().map(|size| u64::from(*size)).sum();
        let (ops, length, slots) = (Table::new(3 * events), 0, living.objects.len());
        let mut record = Self { population: bytes, live_bytes, slots, ops, length };
        record.draw(profile, scale, &mut living, events, random);
        record.bring_back(profile, &living, random);
        record
    }

    /// The births and deaths, in order.
    pub(super) fn ops(&self) -> impl ExactSizeIterator<Item = Op> + '_ {
        self.ops[..self.length].iter().copied()
    }

    fn push(&mut self, slot: u32, size: u32) {
        self.ops[self.length] = Op { slot, size };
        self.length += 1;
    }

    fn draw(
        &mut self,
        profile: &[Size],
        scale: f64,
        living: &mut Living,
        events: usize,
        random: &mut StdRng,
    ) {
        let mut births = Weights::new(profile.len());
        for (index, size) in profile.iter().enumerate() {
            births.add(index, size.rate * scale);
        }
        for _ in 0..events {
            let is_birth = random.random::<f64>() * (births.sum + living.deaths.sum) < births.sum;
            if is_birth {
                let size = births.draw(random);
                let slot = living.unused.pop(&mut living.lowest_unused);
                living.add(slot, size);
                self.push(slot, profile[size].bytes);
            } else {
                let size = living.deaths.draw(random);
                if let Some(slot) = living.remove_one(size, random) {
                    self.push(slot, Op::DEATH);
                }
            }
        }
    }

    /// Appends, each in random order, the deaths of objects that did not exist at the beginning,
    /// and then the births of objects that existed then and are dead.
    fn bring_back(&mut self, profile: &[Size], living: &Living, random: &mut StdRng) {
        let first = self.length;
        for slot in 0..self.slots {
            let now = living.bytes(slot, profile);
            if now != self.bytes_at_first(slot) && now != 0 {
                self.push(slot as u32, Op::DEATH);
            }
        }
        shuffle(&mut self.ops[first..self.length], random);
        let second = self.length;
        for slot in 0..self.slots {
            let bytes = self.bytes_at_first(slot);
            if bytes != living.bytes(slot, profile) && bytes != 0 {
                self.push(slot as u32, bytes);
            }
        }
        shuffle(&mut self.ops[second..self.length], random);
    }

    /// The bytes of the object in a slot at the beginning; 0 if there was none.
    fn bytes_at_first(&self, slot: usize) -> u32 {
        self.population.get(slot).copied().unwrap_or(0)
    }
}

fn shuffle<T>(items: &mut [T], random: &mut impl Rng) {
    for last in (1..items.len()).rev() {
        items.swap(last, random.random_range(0..=last));
    }
}

/// The size of a slot's object, and the object's index among those of its size.
#[derive(Clone, Copy)]
struct Place {
    size: u32,
    index: u32,
}

impl Place {
    const NOWHERE: u32 = u32::MAX;
}

/// Slots without an object: first those of dead objects, then the lowest that had no object yet.
struct Unused {
    slots: Table<u32>,
    count: usize,
}

impl Unused {
    fn pop(&mut self, lowest: &mut u32) -> u32 {
        if self.count > 0 {
            self.count -= 1;
            return self.slots[self.count];
        }
        *lowest += 1;
        *lowest - 1
    }
}

struct Living {
    objects: Table<Place>,
    /// For each size, the slots of its objects, and their number.
    members: Vec<(Table<u32>, usize)>,
    unused: Unused,
    lowest_unused: u32,
    /// Deaths per unit of time of all live objects of each size.
    deaths: Weights,
    /// Deaths per unit of time of a single object of each size.
    of_one: Vec<f64>,
}

impl Living {
    fn new(profile: &[Size], scale: f64, events: usize, random: &mut StdRng) -> Self {
        let count = |size: &Size| {
            let mean = size.alive * scale;
            mean as usize + usize::from(random.random::<f64>() < mean.fract())
        };
        let counts: Vec<usize> = profile.iter().map(count).collect();
        let population = counts.iter().sum::<usize>();
        let mut order = Table::new(population);
        let sizes =
            counts.iter().enumerate().flat_map(|(size, count)| (0..*count).map(move |_| size));
        for (place, size) in order.iter_mut().zip(sizes) {
            *place = size as u32;
        }
        shuffle(&mut order, random);
        let mut living = Self {
            objects: Table::new(population + events),
            members: counts.iter().map(|count| (Table::new(count + events), 0)).collect(),
            unused: Unused { slots: Table::new(population + events), count: 0 },
            lowest_unused: population as u32,
            deaths: Weights::new(profile.len()),
            of_one: profile.iter().map(|size| size.rate / size.alive).collect(),
        };
        living.objects.fill(Place { size: Place::NOWHERE, index: 0 });
        for (slot, size) in order.iter().enumerate() {
            living.add(slot as u32, *size as usize);
        }
        living
    }

    /// The bytes of the object in a slot; 0 if there is none.
    fn bytes(&self, slot: usize, profile: &[Size]) -> u32 {
        match self.objects[slot].size {
            Place::NOWHERE => 0,
            size => profile[size as usize].bytes,
        }
    }

    fn add(&mut self, slot: u32, size: usize) {
        let (members, count) = &mut self.members[size];
        self.objects[slot as usize] = Place { size: size as u32, index: *count as u32 };
        members[*count] = slot;
        *count += 1;
        self.deaths.add(size, self.of_one[size]);
    }

    /// Removes a random object of a size; `None` if there is none.
    fn remove_one(&mut self, size: usize, random: &mut StdRng) -> Option<u32> {
        let (members, count) = &mut self.members[size];
        *count = count.checked_sub(1)?;
        let index = random.random_range(0..=*count);
        let (slot, last) = (members[index], members[*count]);
        members[index] = last;
        self.objects[last as usize].index = index as u32;
        self.objects[slot as usize].size = Place::NOWHERE;
        self.unused.slots[self.unused.count] = slot;
        self.unused.count += 1;
        self.deaths.add(size, -self.of_one[size]);
        Some(slot)
    }
}

/// Weights of numbers below a bound, as a binary indexed tree: O(log n) for a change or a draw.
struct Weights {
    tree: Vec<f64>,
    sum: f64,
}

impl Weights {
    fn new(count: usize) -> Self {
        Self { tree: vec![0.0; count + 1], sum: 0.0 }
    }

    fn add(&mut self, number: usize, weight: f64) {
        self.sum += weight;
        let mut at = number + 1;
        while at < self.tree.len() {
            self.tree[at] += weight;
            at += at & at.wrapping_neg();
        }
    }

    /// Draws a number with a probability proportional to its weight.
    fn draw(&self, random: &mut StdRng) -> usize {
        let mut rest = random.random::<f64>() * self.sum;
        let (mut at, mut step) = (0, (self.tree.len() - 1).next_power_of_two());
        while step > 0 {
            if at + step < self.tree.len() && self.tree[at + step] <= rest {
                at += step;
                rest -= self.tree[at];
            }
            step /= 2;
        }
        at.min(self.tree.len() - 2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;

    fn record(events: usize) -> (Vec<Size>, Record) {
        let profile = parse("16,10,1000\n64,5,100\n4096,0.5,20\n8,1,0\n").expect("it is right");
        let live = profile.iter().map(|it| f64::from(it.bytes) * it.alive).sum::<f64>() * 4.0;
        let record = Record::new(&profile, live, events, &mut StdRng::seed_from_u64(7));
        (profile, record)
    }

    #[test]
    fn a_line_has_three_numbers() {
        assert!(parse("16,1,2\n17,3").is_none());
        assert_eq!(parse("1,1,2").expect("it is right")[0].bytes, 8, "a mark has room");
    }

    /// Every death is that of a live object, every birth finds an empty slot, and the population at
    /// the end is that of the beginning.
    #[test]
    fn a_record_brings_its_population_back() {
        let (_, record) = record(5_000);
        let mut now = vec![0; record.slots];
        now[..record.population.len()].copy_from_slice(&record.population);
        for Op { slot, size } in record.ops() {
            let object = &mut now[slot as usize];
            assert_ne!(*object == 0, size == Op::DEATH, "slot {slot}");
            *object = size;
        }
        assert_eq!(now[..record.population.len()], record.population[..]);
        assert!(now[record.population.len()..].iter().all(|size| *size == 0));
        assert!(record.ops().len() > 5_000);
    }

    #[test]
    fn a_population_follows_its_profile() {
        let (profile, record) = record(0);
        for size in &profile {
            let found = record.population.iter().filter(|bytes| **bytes == size.bytes).count();
            let off = found as f64 - size.alive * 4.0;
            assert!(off.abs() <= 1.0, "{found} of {} bytes", size.bytes);
        }
    }

    #[test]
    fn numbers_are_drawn_by_their_weights() {
        let (mut weights, mut random) = (Weights::new(5), StdRng::seed_from_u64(3));
        [0.0, 1.0, 0.0, 3.0, 0.0]
            .iter()
            .enumerate()
            .for_each(|(it, weight)| weights.add(it, *weight));
        let drawn: Vec<usize> = (0..4_000).map(|_| weights.draw(&mut random)).collect();
        let ones = drawn.iter().filter(|number| **number == 1).count();
        assert!(drawn.iter().all(|number| [1, 3].contains(number)));
        assert!((900..1_100).contains(&ones), "{ones} of 4,000");
    }
}
