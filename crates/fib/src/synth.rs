//! Routing tables made up after the real one.
//!
//! Lengths are distributed as in a full BGP table of 901,899 IPv4 and 160,147 IPv6 prefixes, and so is, for each
//! length, the share of prefixes that lie within shorter ones. Prefixes come in runs of neighbours, as
//! allocations do, from the space that is allocated to them. There is no default route and nothing within or
//! around the reserved ranges; one of those is promised as the hole.

use std::collections::HashSet;

use crate::next_hop::{NextHop, NextHopId};
use crate::prefix::{Address, Family, Prefix};
use crate::random::Random;
use crate::rib::Rib;
use crate::route_table::Route;

/// The largest table.
pub const MAX_ROUTES: usize = 10_000_000;
/// How often a free place is looked for.
const TRIES: usize = 64;

/// Prefixes of one length in the real table.
struct Length {
    len: u8,
    count: usize,
    /// How many of them a shorter one covers.
    covered: usize,
}

const fn lengths<const N: usize>(rows: [(u8, usize, usize); N]) -> [Length; N] {
    let mut all = [const { Length { len: 0, count: 0, covered: 0 } }; N];
    let mut i = 0;
    while i < N {
        all[i] = Length { len: rows[i].0, count: rows[i].1, covered: rows[i].2 };
        i += 1;
    }
    all
}

#[rustfmt::skip]
const LENGTHS_4: &[Length] = &lengths([
    (8, 16, 0), (9, 13, 4), (10, 38, 0), (11, 103, 4), (12, 299, 31), (13, 581, 96), (14, 1203, 178),
    (15, 2100, 464), (16, 13490, 3206), (17, 8235, 3754), (18, 13798, 6875), (19, 24870, 9815),
    (20, 42611, 23206), (21, 50750, 27723), (22, 108623, 49227), (23, 96510, 55056), (24, 537698, 276616),
    (25, 20, 20), (26, 3, 3), (27, 11, 11), (28, 18, 17), (29, 17, 17), (30, 3, 3), (31, 3, 3), (32, 886, 880),
]);

#[rustfmt::skip]
const LENGTHS_6: &[Length] = &lengths([
    (16, 1, 0), (19, 1, 0), (20, 16, 0), (21, 3, 0), (22, 7, 0), (23, 8, 0), (24, 30, 3), (25, 8, 1), (26, 15, 0),
    (27, 20, 2), (28, 193, 85), (29, 4371, 54), (30, 650, 283), (31, 284, 130), (32, 22548, 5727),
    (33, 2926, 2367), (34, 2603, 1873), (35, 1043, 649), (36, 5996, 3392), (37, 880, 663), (38, 1617, 848),
    (39, 1377, 1130), (40, 13418, 10235), (41, 903, 480), (42, 2301, 1832), (43, 1001, 434), (44, 14365, 10306),
    (45, 1553, 1268), (46, 3039, 1618), (47, 3153, 2477), (48, 75488, 44913), (49, 11, 11), (50, 3, 3),
    (52, 1, 1), (55, 1, 1), (56, 24, 23), (58, 20, 20), (60, 2, 0), (64, 184, 179), (112, 2, 2), (122, 1, 1),
    (124, 4, 4), (125, 9, 9), (126, 19, 19), (127, 42, 42), (128, 6, 6),
]);

/// First 32 bits and length.
type Range = (u32, u8);

/// Where routes are: unicast space, with the weight of each part in the real table.
const SPACE_4: &[(Range, u32)] = &[((0x0000_0000, 1), 128), ((0x8000_0000, 2), 64), ((0xC000_0000, 3), 32)];
const SPACE_6: &[(Range, u32)] = &[
    ((0x2001_0000, 16), 20_170),
    ((0x2400_0000, 12), 52_268),
    ((0x2600_0000, 12), 22_793),
    ((0x2800_0000, 12), 28_380),
    ((0x2A00_0000, 12), 35_057),
    ((0x2C00_0000, 12), 1_479),
];

/// Where no route is (RFC 6890). The first is the hole: the range for benchmarks, RFC 2544 and RFC 5180.
const RESERVED_4: &[Range] = &[
    (0xC612_0000, 15), // 198.18.0.0
    (0x0000_0000, 8),
    (0x0A00_0000, 8),
    (0x6440_0000, 10), // 100.64.0.0
    (0x7F00_0000, 8),
    (0xA9FE_0000, 16), // 169.254.0.0
    (0xAC10_0000, 12), // 172.16.0.0
    (0xC000_0000, 24),
    (0xC000_0200, 24), // 192.0.2.0
    (0xC0A8_0000, 16), // 192.168.0.0
    (0xC633_6400, 24), // 198.51.100.0
    (0xCB00_7100, 24), // 203.0.113.0
];
const RESERVED_6: &[Range] = &[
    (0x2001_0002, 32), // 2001:2::
    (0x2001_0000, 32),
    (0x2001_0DB8, 32),
];

/// A made-up table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Synth<A: Address> {
    /// Distinct prefixes in their order.
    pub routes: Vec<Route<A>>,
    /// No address of this prefix has a route: 198.18.0.0/15 or 2001:2::/32.
    pub hole: Prefix<A>,
}

/// Why no table can be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SynthError {
    /// More routes are asked for than [`MAX_ROUTES`].
    #[error("{0} routes are too many: at most {max}", max = MAX_ROUTES)]
    TooMany(usize),
    /// There is no next hop to lead routes to.
    #[error("routes need at least one next hop")]
    NoNextHop,
}

/// Makes `count` routes of the family of `A`, the same ones for the same arguments. Each next hop is used, if
/// there are as many routes, and all about equally often.
pub fn synth<A: Address>(count: usize, seed: u64, next_hops: &[NextHop]) -> Result<Synth<A>, SynthError> {
    if count > MAX_ROUTES {
        return Err(SynthError::TooMany(count));
    }
    if next_hops.is_empty() && count > 0 {
        return Err(SynthError::NoNextHop);
    }
    let mut maker = Maker::<A>::new(seed, count);
    let mut left = 0;
    for (length, share) in maker.lengths.iter().zip(apportion(count, maker.lengths)) {
        left = maker.place_all(length, share + left);
    }
    // Only the longest length can leave any over, and it has more places than `MAX_ROUTES`.
    debug_assert_eq!(left, 0);
    let random = &mut maker.random;
    let next_hop = |i| next_hops.get(i).copied().unwrap_or_else(|| next_hops[random.below(next_hops.len())]);
    let hops = (0..count).map(next_hop);
    let mut routes: Vec<_> =
        maker.placed.iter().zip(hops).map(|(&prefix, next_hop)| Route { prefix, next_hop }).collect();
    routes.sort_unstable_by_key(|route| route.prefix);
    Ok(Synth { routes, hole: maker.reserved[0] })
}

/// Divides `count` in proportion to the lengths of the real table (largest remainder).
fn apportion(count: usize, lengths: &[Length]) -> Vec<usize> {
    let total: usize = lengths.iter().map(|length| length.count).sum();
    let mut shares: Vec<_> = lengths.iter().map(|length| count * length.count / total).collect();
    let mut order: Vec<_> = (0..lengths.len()).collect();
    order.sort_by_key(|&i| std::cmp::Reverse(count * lengths[i].count % total));
    let missing = count - shares.iter().sum::<usize>();
    order.into_iter().take(missing).for_each(|i| shares[i] += 1);
    shares
}

fn prefix<A: Address>((first, len): Range) -> Prefix<A> {
    Prefix::truncated(A::from_low_bits(u128::from(first)) << (A::BITS - u32::BITS), len)
}

fn address<A: Address>(random: &mut Random) -> A {
    A::from_low_bits(u128::from(random.bits()) << 64 | u128::from(random.bits()))
}

/// The blocks of the space that no route and no reserved range has, with running sums of their weights.
struct Gaps<A> {
    blocks: Vec<Prefix<A>>,
    sums: Vec<f64>,
}

impl<A: Address> Gaps<A> {
    /// The blocks of at most `len` bits that are free in `taken`. Those of one part of the space weigh together
    /// what the part weighs, and each in proportion to its size.
    fn new(space: &[(Prefix<A>, u32)], taken: &Rib<A>, len: u8) -> Gaps<A> {
        let mut gaps = Gaps { blocks: Vec::new(), sums: Vec::new() };
        let size = |block: &Prefix<A>| 0.5f64.powi(i32::from(block.len()));
        let mut sum = 0.0;
        for &(part, weight) in space {
            let start = gaps.blocks.len();
            taken.ranges(part, |first, last, hop| {
                if hop.is_none() {
                    blocks(first, last, |block| gaps.blocks.extend((block.len() <= len).then_some(block)));
                }
            });
            let found = &gaps.blocks[start..];
            let scale = f64::from(weight) / found.iter().map(size).sum::<f64>();
            for block in found {
                sum += size(block) * scale;
                gaps.sums.push(sum);
            }
        }
        gaps
    }

    fn pick(&self, random: &mut Random) -> Option<Prefix<A>> {
        let at = random.fraction() * self.sums.last()?;
        let index = self.sums.partition_point(|&sum| sum <= at);
        self.blocks.get(index).or(self.blocks.last()).copied()
    }
}

/// Cuts a range of addresses into prefixes.
fn blocks<A: Address>(mut first: A, last: A, mut each: impl FnMut(Prefix<A>)) {
    loop {
        let mut block = Prefix::host(first);
        while let Some(wider) = block.len().checked_sub(1).map(|len| Prefix::truncated(first, len))
            && wider.first() == first
            && wider.last() <= last
        {
            block = wider;
        }
        each(block);
        if block.last() >= last {
            return;
        }
        first = block.last().next();
    }
}

struct Maker<A> {
    random: Random,
    lengths: &'static [Length],
    space: Vec<(Prefix<A>, u32)>,
    reserved: Vec<Prefix<A>>,
    /// Prefixes so far, from short to long.
    placed: Vec<Prefix<A>>,
    /// Those of the lengths that are done, and the reserved ranges. The next hop means nothing.
    done: Rib<A>,
    /// Those of the length at hand.
    taken: HashSet<Prefix<A>>,
}

/// A place for a prefix, and the block that it was looked for in.
type Place<A> = (Prefix<A>, Prefix<A>);

impl<A: Address> Maker<A> {
    fn new(seed: u64, count: usize) -> Maker<A> {
        let (lengths, space, reserved) = match A::FAMILY {
            Family::Ipv4 => (LENGTHS_4, SPACE_4, RESERVED_4),
            Family::Ipv6 => (LENGTHS_6, SPACE_6, RESERVED_6),
        };
        let reserved: Vec<_> = reserved.iter().map(|&range| prefix(range)).collect();
        Maker {
            random: Random::new(seed),
            lengths,
            space: space.iter().map(|&(range, weight)| (prefix(range), weight)).collect(),
            done: reserved.iter().map(|&prefix| (prefix, NextHopId::MIN)).collect(),
            reserved,
            placed: Vec::with_capacity(count),
            taken: HashSet::new(),
        }
    }

    /// Places `count` prefixes of one length; returns for how many no place was found.
    fn place_all(&mut self, length: &Length, count: usize) -> usize {
        if count == 0 {
            return 0;
        }
        let shorter = self.placed.len();
        let gaps = Gaps::new(&self.space, &self.done, length.len);
        let mut last = None;
        while self.placed.len() < shorter + count {
            last = self.find(length, shorter, &gaps, last);
            let Some((prefix, _)) = last else {
                break;
            };
            self.taken.insert(prefix);
            self.placed.push(prefix);
        }
        // In order, so that neighbours in the trie are neighbours in memory.
        self.placed[shorter..].sort_unstable();
        self.done.extend(self.placed[shorter..].iter().map(|&prefix| (prefix, NextHopId::MIN)));
        self.taken.clear();
        shorter + count - self.placed.len()
    }

    /// A free place: next to the last one, or in one of the first `shorter` prefixes, or in a gap.
    fn find(
        &mut self,
        length: &Length,
        shorter: usize,
        gaps: &Gaps<A>,
        last: Option<Place<A>>,
    ) -> Option<Place<A>> {
        if self.random.below(2) == 0
            && let Some((last, block)) = last
        {
            let next = Prefix::truncated(last.last().next(), length.len);
            if next > last && block.covers(next) && !self.taken.contains(&next) {
                return Some((next, block));
            }
        }
        let inside = self.random.below(length.count) < length.covered;
        for _ in 0..TRIES {
            let gap = if inside && shorter > 0 { None } else { gaps.pick(&mut self.random) };
            let block = gap.or_else(|| self.parent(shorter))?;
            let addr = block.first() | (address::<A>(&mut self.random) & A::host_mask(block.len()));
            let prefix = Prefix::truncated(addr, length.len);
            if !self.taken.contains(&prefix) {
                return Some((prefix, block));
            }
        }
        None
    }

    /// One of the first `shorter` prefixes. Half of the time one of the first eighth, where the large ones are:
    /// they have more in them.
    fn parent(&mut self, shorter: usize) -> Option<Prefix<A>> {
        let among = if self.random.below(2) == 0 { shorter.div_ceil(8) } else { shorter };
        if among == 0 { None } else { Some(self.placed[self.random.below(among)]) }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn hops(count: u32) -> Vec<NextHop> {
        (0..count).map(|port| NextHop { gateway: None, port }).collect()
    }

    fn check<A: Address>(count: usize, lengths: &[Length]) -> Synth<A> {
        let table: Synth<A> = synth(count, 1, &hops(16)).unwrap();
        assert_eq!(table.routes.len(), count);
        assert!(table.routes.windows(2).all(|pair| pair[0].prefix < pair[1].prefix), "sorted and distinct");
        let ports: HashSet<_> = table.routes.iter().map(|route| route.next_hop.port).collect();
        assert_eq!(ports.len(), 16);
        let mut found = BTreeMap::new();
        for route in &table.routes {
            assert!(!route.prefix.overlaps(table.hole), "{}", route.prefix);
            *found.entry(route.prefix.len()).or_insert(0) += 1;
        }
        let wanted = apportion(count, lengths);
        assert_eq!(wanted.iter().sum::<usize>(), count);
        let wanted: BTreeMap<_, _> =
            lengths.iter().map(|length| length.len).zip(wanted).filter(|&(_, n)| n > 0).collect();
        assert_eq!(found, wanted);
        table
    }

    /// Parts per thousand of the routes that lie within another.
    fn covered<A: Address>(table: &Synth<A>) -> usize {
        let rib: Rib<A> = table.routes.iter().map(|route| (route.prefix, NextHopId::MIN)).collect();
        let nested =
            |prefix: Prefix<A>| rib.covering(Prefix::truncated(prefix.first(), prefix.len() - 1)).is_some();
        table.routes.iter().filter(|route| nested(route.prefix)).count() * 1000 / table.routes.len()
    }

    #[test]
    fn tables_have_the_lengths_and_the_nesting_of_the_real_one() {
        let v4 = check::<u32>(100_000, LENGTHS_4);
        let v6 = check::<u128>(50_000, LENGTHS_6);
        assert_eq!(
            (v4.hole.to_string(), v6.hole.to_string()),
            ("198.18.0.0/15".into(), "2001:2::/32".into())
        );
        // The real tables: 507 and 569.
        assert!((400..=600).contains(&covered(&v4)), "{}", covered(&v4));
        assert!((450..=700).contains(&covered(&v6)), "{}", covered(&v6));
    }

    #[test]
    fn small_counts_are_exact() {
        for count in [0, 1, 2, 20, 333] {
            check_count::<u32>(count);
            check_count::<u128>(count);
        }
        fn check_count<A: Address>(count: usize) {
            assert_eq!(synth::<A>(count, 9, &hops(3)).unwrap().routes.len(), count);
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_table() {
        let table = synth::<u32>(1000, 7, &hops(4)).unwrap();
        assert_eq!(table, synth(1000, 7, &hops(4)).unwrap());
        assert_ne!(table, synth(1000, 8, &hops(4)).unwrap());
        // Also in the next release: benchmarks are compared across them.
        let sum = table.routes.iter().fold(0u64, |sum, route| {
            sum.rotate_left(5)
                ^ (u64::from(route.prefix.first()) << 8)
                ^ u64::from(route.prefix.len())
                ^ (u64::from(route.next_hop.port) << 48)
        });
        assert_eq!(sum, 7_996_204_725_903_681_874);
    }

    #[test]
    fn says_what_is_too_much_or_missing() {
        assert_eq!(
            synth::<u32>(MAX_ROUTES + 1, 0, &hops(1)).unwrap_err().to_string(),
            "10000001 routes are too many: at most 10000000"
        );
        assert_eq!(synth::<u32>(1, 0, &[]), Err(SynthError::NoNextHop));
    }
}
