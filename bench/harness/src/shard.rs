//! A shard: a part of a run that several processes share, on one machine or several.

use crate::usage::Usage;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// The `number`th of `of` parts of a run, written as `2/8`: `1 <= number <= of <= MOST`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Shard {
    of: u32,
    number: u32,
}

/// Maximum number of shards: tasks of a Slurm array at Slurm's limit (`MaxArraySize`, 4 000 001).
const MOST: u32 = 4_000_000;

impl Shard {
    /// Makes the `number`th of `of` shards.
    ///
    /// # Errors
    /// An invalid number; the text says which are accepted.
    pub fn new(number: u32, of: u32) -> Result<Self, Usage> {
        if (1..=MOST).contains(&of) && (1..=of).contains(&number) {
            return Ok(Self { of, number });
        }
        Err(refusal(&format!("{number}/{of}")))
    }

    /// Its number, from 1 on.
    pub fn number(self) -> u32 {
        self.number
    }

    /// The number of shards of its run.
    pub fn of(self) -> u32 {
        self.of
    }

    /// All shards of a run of `of` shards.
    pub fn all(of: u32) -> impl Iterator<Item = Self> {
        (1..=of).map(move |number| Self { of, number })
    }

    /// Returns whether the shard takes block `index` of the run, counted from 0: shards take turns.
    pub fn has(self, index: u64) -> bool {
        index % u64::from(self.of) == u64::from(self.number) - 1
    }

    /// Returns the shard's share of `blocks` blocks; shares differ by at most one.
    pub fn share(self, blocks: u64) -> u64 {
        (blocks + u64::from(self.of) - u64::from(self.number)) / u64::from(self.of)
    }
}

fn refusal(text: &str) -> Usage {
    Usage(format!("{text} is no shard; accepted: K/N with 1 <= K <= N <= {MOST}, such as 2/8"))
}

impl FromStr for Shard {
    type Err = Usage;

    fn from_str(text: &str) -> Result<Self, Usage> {
        let numbers = text.split_once('/');
        let numbers = numbers.and_then(|(number, of)| Some((digits(number)?, digits(of)?)));
        let (number, of) = numbers.ok_or_else(|| refusal(text))?;
        Self::new(number, of)
    }
}

/// Parses a number without a sign.
fn digits(text: &str) -> Option<u32> {
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().ok()).flatten()
}

impl TryFrom<String> for Shard {
    type Error = Usage;

    fn try_from(text: String) -> Result<Self, Usage> {
        text.parse()
    }
}

impl From<Shard> for String {
    fn from(shard: Shard) -> Self {
        shard.to_string()
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.number, self.of)
    }
}

/// The mark of a shard in the description of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// The shard.
    pub shard: Shard,
    /// True if there is a warm-up round: it draws random numbers first, and so changes the order.
    pub warm_up: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_written_as_it_is_read() {
        let shard: Shard = "2/8".parse().unwrap();
        assert_eq!((shard.number(), shard.of(), shard.to_string()), (2, 8, "2/8".to_owned()));
        assert_eq!(serde_json::to_string(&shard).unwrap(), "\"2/8\"");
        assert_eq!(serde_json::from_str::<Shard>("\"2/8\"").unwrap(), shard);
    }

    #[test]
    fn what_is_none_is_told_with_what_is_accepted() {
        for text in ["", "2", "0/8", "9/8", "1/0", "-1/8", "+1/8", "1/8/2", " 1/8", "1/4000001"] {
            let error = text.parse::<Shard>().unwrap_err().to_string();
            assert!(error.starts_with(&format!("{text} is no shard; accepted: K/N")), "{error}");
        }
        assert!(serde_json::from_str::<Shard>("\"3/2\"").is_err());
    }

    #[test]
    fn blocks_are_shared_evenly() {
        for of in 1..=9 {
            for blocks in 0..40 {
                let shares: Vec<u64> = Shard::all(of).map(|it| it.share(blocks)).collect();
                assert_eq!(shares.iter().sum::<u64>(), blocks);
                assert!(shares.iter().max().unwrap() - shares.iter().min().unwrap() <= 1);
                let counted = |it: Shard| (0..blocks).filter(|index| it.has(*index)).count() as u64;
                assert_eq!(Shard::all(of).map(counted).collect::<Vec<_>>(), shares);
            }
        }
    }
}
