//! The addresses that the router itself has, from which nothing can come from outside (RFC 1812 §5.3.7): they change while it runs.

use super::addresses::{Few, Member, few_of};
use epoch::{Reader, Table};
use std::collections::HashSet;

/// Shared by name: `CheckIPHeader` reads them, whoever knows of them sets them.
#[derive(Default)]
pub struct OwnAddresses(Table<Own>);

/// The addresses, and a few patterns that all of them match, to tell quickly that an address is none of them.
#[derive(Debug, Default)]
pub(crate) struct Own {
    near: Vec<Member>,
    all: HashSet<u32>,
}

/// So many patterns at most.
const PATTERNS: usize = 4;
/// A pattern of so many bits is matched by few others.
const SELECTIVE: u32 = 20;

impl OwnAddresses {
    /// These are the addresses from now on.
    pub fn set(&self, addresses: impl IntoIterator<Item = u32>) {
        self.0.replace(Own::new(addresses.into_iter().collect()));
    }

    /// Those of now.
    pub(crate) fn read<'a>(&'a self, reader: &'a Reader) -> &'a Own {
        self.0.read(reader)
    }
}

impl Own {
    fn new(all: HashSet<u32>) -> Own {
        let mut patterns: Vec<(u32, u32)> = all.iter().map(|address| (*address, u32::MAX)).collect();
        patterns.sort_unstable();
        // Neighbours are merged, those first that have most in common.
        while let Some((place, merged)) = most_alike(&patterns) {
            if patterns.len() <= PATTERNS && merged.1.count_ones() < SELECTIVE {
                break;
            }
            patterns[place] = merged;
            patterns.remove(place + 1);
        }
        let near = patterns.into_iter().map(|(value, mask)| (value.to_be(), mask.to_be())).collect();
        Own { near, all }
    }

    pub(crate) fn few(&self) -> Few<'_> {
        few_of(&self.near)
    }

    /// False if the address (as in memory) is plainly none of them. Else [`contains`](Self::contains) knows.
    #[inline(always)]
    pub(crate) fn may_contain(&self, address: u32) -> bool {
        self.near.iter().any(|(value, mask)| address & mask == *value)
    }

    pub(crate) fn contains(&self, address: u32) -> bool {
        self.all.contains(&address)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }
}

/// The place of the first of the two neighbours that have most bits in common, and what they have.
fn most_alike(patterns: &[(u32, u32)]) -> Option<(usize, (u32, u32))> {
    let merged = patterns.windows(2).map(|pair| {
        let mask = pair[0].1 & pair[1].1 & !(pair[0].0 ^ pair[1].0);
        (pair[0].0 & mask, mask)
    });
    merged.enumerate().max_by_key(|(_, (_, mask))| mask.count_ones())
}

#[cfg(test)]
mod tests {
    use super::*;
    use cluster::random::Random;

    #[test]
    fn all_addresses_match_few_patterns() {
        let mut random = Random::new(5);
        for count in [0, 1, 2, 5, 30, 300] {
            let all: HashSet<u32> = (0..count).map(|_| random.bits() as u32).collect();
            let own = Own::new(all.clone());
            assert!(own.near.len() <= PATTERNS && own.is_empty() == all.is_empty());
            assert!(all.iter().all(|address| own.may_contain(address.to_be()) && own.contains(*address)));
        }
        // Of 64 networks each first address: hardly another one is like these.
        let own = Own::new((0..64).map(|net| 0x0a00_0001 | net << 8).collect());
        assert_eq!(own.near.len(), 1);
        assert!(own.may_contain(0x0a00_3f01_u32.to_be()) && !own.may_contain(0x0a00_0102_u32.to_be()));
        assert!(!own.contains(0x0a00_4001));
    }
}
