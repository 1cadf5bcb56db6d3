//! Groups of next hops that share the traffic of a route (equal-cost and weighted multipath).
//!
//! ```text
//!  hash of the flow ── buckets[hash] ── next hop      a power of two of buckets, each with one member
//! ```
//!
//! Hashing is resilient (as RFC 2992 wishes it were): when a member goes, only the flows of its buckets move; when one
//! comes, only as many buckets move as it is to have. All other flows stay on their paths.

use std::collections::{HashMap, HashSet};

use crate::next_hop::NextHopId;

/// A set of next hops with weights, spread over buckets.
///
/// A plain value: to change a group under readers, publish a changed clone (`epoch::Table`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HopGroup {
    members: Vec<Member>,
    /// `None` only while there are no members.
    buckets: Box<[Option<NextHopId>]>,
}

/// A next hop of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Member {
    /// The next hop.
    pub hop: NextHopId,
    /// Its part of the traffic in proportion to the others' weights; not 0.
    pub weight: u32,
    /// The buckets that it has.
    pub buckets: u32,
}

/// Why a group cannot be made or changed so.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GroupError {
    /// The number of buckets is none of those that there can be.
    #[error("{0} buckets: expected a power of two from 1 to {max}", max = HopGroup::MAX_BUCKETS)]
    Buckets(usize),
    /// A next hop that is to come is a member.
    #[error("next hop {0:?} is in the group already")]
    Member(NextHopId),
    /// A next hop that is to go is no member.
    #[error("next hop {0:?} is not in the group")]
    NoMember(NextHopId),
    /// A weight of 0.
    #[error("the weight of next hop {0:?} is 0")]
    Weight(NextHopId),
    /// A bucket of a member that there is not.
    #[error("there is no member {0}")]
    Index(u16),
    /// More members than buckets.
    #[error("more members than the group's {0} buckets")]
    Members(usize),
}

impl HopGroup {
    /// The most buckets that a group can have.
    pub const MAX_BUCKETS: usize = 1 << 16;
    /// Enough for a few members of like weights: shares are true to 0.4 % of the traffic.
    pub const LEAST_BUCKETS: usize = 256;

    /// A group of these next hops and weights. `buckets` is a power of two: each member's part of the traffic is within
    /// one bucket of what its weight says, so a few dozen for each member keep shares true to some percent.
    pub fn new(buckets: usize, members: &[(NextHopId, u32)]) -> Result<HopGroup, GroupError> {
        if !buckets.is_power_of_two() || buckets > Self::MAX_BUCKETS {
            return Err(GroupError::Buckets(buckets));
        }
        let mut group =
            HopGroup { members: Vec::with_capacity(members.len()), buckets: vec![None; buckets].into() };
        for &(hop, weight) in members {
            group.check_new(hop, weight)?;
            group.members.push(Member { hop, weight, buckets: 0 });
        }
        let total = group.total_weight();
        let mut given = 0;
        for member in &mut group.members {
            member.buckets = (u64::from(member.weight) * buckets as u64 / total) as u32;
            given += member.buckets as usize;
        }
        // What is left, less than a bucket for each, goes to those that lost most by rounding down.
        let mut order: Vec<usize> = (0..group.members.len()).collect();
        order
            .sort_by_key(|&i| std::cmp::Reverse(u64::from(group.members[i].weight) * buckets as u64 % total));
        for &i in order.iter().take(buckets - given) {
            group.members[i].buckets += 1;
        }
        group.give_each_one();
        let each = group.members.iter().flat_map(|m| std::iter::repeat_n(m.hop, m.buckets as usize));
        for (bucket, hop) in group.buckets.iter_mut().zip(each) {
            *bucket = Some(hop);
        }
        Ok(group)
    }

    /// Has those without a bucket take one each from those that have most beyond their shares.
    fn give_each_one(&mut self) {
        let (buckets, total) = (self.buckets.len() as u64, self.total_weight());
        while let Some(without) = self.members.iter().position(|member| member.buckets == 0) {
            let Some(richest) = self.richest(buckets, total) else { return };
            self.members[richest].buckets -= 1;
            self.members[without].buckets += 1;
        }
    }

    /// The member with the most beyond its share, of those that can do without one.
    fn richest(&self, buckets: u64, total: u64) -> Option<usize> {
        let having = self.members.iter().enumerate().filter(|(_, member)| member.buckets > 1);
        having.min_by_key(|(_, member)| member.lack(buckets, total)).map(|(index, _)| index)
    }

    /// So many buckets that the shares of members with these weights are true to a few percent, within what a group can have:
    /// [`LEAST_BUCKETS`](Self::LEAST_BUCKETS) for most, and never more than 16,384.
    pub fn buckets_for(weights: impl IntoIterator<Item = u32>) -> usize {
        let (mut members, mut total, mut least) = (0usize, 0u64, u64::MAX);
        for weight in weights.into_iter().map(u64::from) {
            (members, total, least) = (members + 1, total + weight, least.min(weight.max(1)));
        }
        let for_least = usize::try_from(total / least).unwrap_or(usize::MAX).saturating_mul(8);
        let wanted = for_least.max(members.saturating_mul(16)).min(1 << 14);
        // Each member is to have one.
        wanted.max(members).next_power_of_two().clamp(Self::LEAST_BUCKETS, Self::MAX_BUCKETS)
    }

    /// Gives it more buckets, of which each old one becomes as many: no flow moves. Fewer, or a number that there cannot
    /// be, change nothing.
    pub fn grow(&mut self, buckets: usize) {
        if !buckets.is_power_of_two() || buckets > Self::MAX_BUCKETS || buckets <= self.buckets.len() {
            return;
        }
        let times = buckets / self.buckets.len();
        self.buckets = self.buckets.iter().flat_map(|bucket| std::iter::repeat_n(*bucket, times)).collect();
        self.members.iter_mut().for_each(|member| member.buckets *= times as u32);
    }

    /// A group as another one is: the same members, and the same member in each bucket, by its index among them.
    ///
    /// # Errors
    /// If that is no group.
    pub fn from_parts(members: &[(NextHopId, u32)], buckets: &[u16]) -> Result<HopGroup, GroupError> {
        let mut group = HopGroup::new(buckets.len(), &[])?;
        let mut known = HashSet::new();
        for &(hop, weight) in members {
            if weight == 0 {
                return Err(GroupError::Weight(hop));
            }
            if !known.insert(hop) {
                return Err(GroupError::Member(hop));
            }
            group.members.push(Member { hop, weight, buckets: 0 });
        }
        if members.len() > buckets.len() {
            return Err(GroupError::Members(buckets.len()));
        }
        if !members.is_empty() {
            for (bucket, index) in group.buckets.iter_mut().zip(buckets) {
                let member = group.members.get_mut(usize::from(*index)).ok_or(GroupError::Index(*index))?;
                member.buckets += 1;
                *bucket = Some(member.hop);
            }
        }
        Ok(group)
    }

    /// What [`from_parts`](Self::from_parts) makes the group of: members with weights, and the member of each bucket. All
    /// zeros without members.
    pub fn parts(&self) -> (Vec<(NextHopId, u32)>, Vec<u16>) {
        let members = self.members.iter().map(|member| (member.hop, member.weight)).collect();
        let index: HashMap<_, _> =
            self.members.iter().zip(0..=u16::MAX).map(|(member, index)| (member.hop, index)).collect();
        let of = |bucket: &Option<NextHopId>| bucket.and_then(|hop| index.get(&hop)).copied().unwrap_or(0);
        (members, self.buckets.iter().map(of).collect())
    }

    /// The next hop for a flow; `None` when the group has no members.
    #[inline]
    pub fn pick(&self, hash: u32) -> Option<NextHopId> {
        // Receive queues have been chosen by the low bits: a worker sees only some values of these. Fibonacci hashing
        // makes an index of all bits.
        let mixed = u64::from(hash.wrapping_mul(0x9E37_79B9));
        self.buckets[((mixed * self.buckets.len() as u64) >> 32) as usize]
    }

    /// The members, in the order in which they came.
    pub fn members(&self) -> &[Member] {
        &self.members
    }

    /// The next hop of each bucket.
    pub fn buckets(&self) -> &[Option<NextHopId>] {
        &self.buckets
    }

    /// Adds a next hop. It takes as many buckets as its weight says, rounded, from those members that have most beyond
    /// their shares; no other bucket moves.
    pub fn add(&mut self, hop: NextHopId, weight: u32) -> Result<(), GroupError> {
        self.check_new(hop, weight)?;
        let buckets = self.buckets.len() as u64;
        let total = self.total_weight() + u64::from(weight);
        if self.members.is_empty() {
            self.buckets.fill(Some(hop));
            self.members.push(Member { hop, weight, buckets: buckets as u32 });
            return Ok(());
        }
        let wanted = ((u64::from(weight) * buckets + total / 2) / total).max(1);
        let mut taken = vec![0; self.members.len()];
        for _ in 0..wanted {
            let Some(most) = self.richest(buckets, total) else { break };
            self.members[most].buckets -= 1;
            taken[most] += 1;
        }
        self.members.push(Member { hop, weight, buckets: taken.iter().sum() });
        for bucket in &mut self.buckets {
            let owner = self.members.iter().position(|member| Some(member.hop) == *bucket);
            if let Some(left) = owner.and_then(|owner| taken.get_mut(owner)).filter(|left| **left > 0) {
                *left -= 1;
                *bucket = Some(hop);
            }
        }
        Ok(())
    }

    /// Removes a next hop. Its buckets go to those members that lack most of their shares; no other bucket moves.
    pub fn remove(&mut self, hop: NextHopId) -> Result<(), GroupError> {
        let at = self.members.iter().position(|member| member.hop == hop).ok_or(GroupError::NoMember(hop))?;
        self.members.remove(at);
        self.give_away();
        Ok(())
    }

    /// Makes these the members, each once: those that are to go are removed and new ones added, so that the flows of all
    /// others stay. Where weights change, no more flows move than that takes. Gives itself more buckets where
    /// [that many](Self::buckets_for) are needed.
    ///
    /// # Errors
    /// If these cannot be the members; then nothing changes but perhaps the number of buckets.
    pub fn set_members(&mut self, members: &[(NextHopId, u32)]) -> Result<(), GroupError> {
        if let Some((hop, _)) = members.iter().find(|(_, weight)| *weight == 0) {
            return Err(GroupError::Weight(*hop));
        }
        self.grow(Self::buckets_for(members.iter().map(|(_, weight)| *weight)));
        let mut seen = HashSet::new();
        if let Some((hop, _)) = members.iter().find(|(hop, _)| !seen.insert(*hop)) {
            return Err(GroupError::Member(*hop));
        }
        if members.len() > self.buckets.len() {
            return Err(GroupError::Members(self.buckets.len()));
        }
        let mut wanted: HashMap<NextHopId, u32> = members.iter().copied().collect();
        let mut is_other = false;
        self.members.retain_mut(|member| {
            let weight = wanted.remove(&member.hop);
            is_other |= weight.is_some_and(|weight| weight != member.weight);
            member.weight = weight.unwrap_or(member.weight);
            weight.is_some()
        });
        let new = members.iter().filter(|(hop, _)| wanted.contains_key(hop));
        let new: Vec<Member> = new.map(|&(hop, weight)| Member { hop, weight, buckets: 0 }).collect();
        is_other |= !new.is_empty();
        self.members.extend(new);
        self.give_away();
        if is_other {
            self.balance();
        }
        Ok(())
    }

    /// Gives the buckets of whoever is no member to those members that lack most of their shares.
    fn give_away(&mut self) {
        let (buckets, total) = (self.buckets.len() as u64, self.total_weight());
        let known: HashSet<NextHopId> = self.members.iter().map(|member| member.hop).collect();
        for bucket in self.buckets.iter_mut().filter(|bucket| bucket.is_none_or(|hop| !known.contains(&hop)))
        {
            let heir = self.members.iter_mut().max_by_key(|member| member.lack(buckets, total));
            *bucket = heir.map(|heir| {
                heir.buckets += 1;
                heir.hop
            });
        }
    }

    /// Moves buckets from members with too many to those with too few, until no two are more than a bucket apart and each
    /// has one.
    fn balance(&mut self) {
        let (buckets, total) = (self.buckets.len() as u64, self.total_weight());
        let before: Vec<u32> = self.members.iter().map(|member| member.buckets).collect();
        let lack = |group: &HopGroup, index: usize| group.members[index].lack(buckets, total);
        while let Some(richest) = self.richest(buckets, total)
            && let Some(poorest) = (0..self.members.len()).max_by_key(|index| lack(self, *index))
            && lack(self, poorest) - lack(self, richest) > i128::from(total)
            && richest != poorest
        {
            self.members[richest].buckets -= 1;
            self.members[poorest].buckets += 1;
        }
        self.give_each_one();
        let index: HashMap<NextHopId, usize> =
            self.members.iter().map(|member| member.hop).zip(0..).collect();
        let change = |index: usize| i64::from(self.members[index].buckets) - i64::from(before[index]);
        let mut change: Vec<i64> = (0..before.len()).map(change).collect();
        let mut poor = 0;
        for bucket in &mut self.buckets {
            let Some(&owner) = bucket.as_ref().and_then(|hop| index.get(hop)) else { continue };
            if change[owner] >= 0 {
                continue;
            }
            while change.get(poor).is_some_and(|change| *change <= 0) {
                poor += 1;
            }
            let Some(member) = self.members.get(poor) else { return };
            *bucket = Some(member.hop);
            change[owner] += 1;
            change[poor] -= 1;
        }
    }

    fn check_new(&self, hop: NextHopId, weight: u32) -> Result<(), GroupError> {
        if weight == 0 {
            return Err(GroupError::Weight(hop));
        }
        if self.members.iter().any(|member| member.hop == hop) {
            return Err(GroupError::Member(hop));
        }
        if self.members.len() == self.buckets.len() {
            return Err(GroupError::Members(self.buckets.len()));
        }
        Ok(())
    }

    fn total_weight(&self) -> u64 {
        self.members.iter().map(|member| u64::from(member.weight)).sum()
    }
}

impl Member {
    /// How many buckets it lacks to its share, times the total weight; negative when it has more.
    fn lack(&self, buckets: u64, total: u64) -> i128 {
        i128::from(u64::from(self.weight) * buckets) - i128::from(self.buckets) * i128::from(total)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn hop(index: u32) -> NextHopId {
        NextHopId::new(index).unwrap()
    }

    /// Buckets, counted, are what the members say; all are used.
    fn check(group: &HopGroup) {
        for member in group.members() {
            let count = group.buckets().iter().filter(|&&bucket| bucket == Some(member.hop)).count();
            assert_eq!(count, member.buckets as usize);
        }
        let sum: usize = group.members().iter().map(|member| member.buckets as usize).sum();
        assert_eq!(sum, if group.members().is_empty() { 0 } else { group.buckets().len() });
    }

    /// The buckets by which the member that is furthest from its share misses it.
    fn worst(group: &HopGroup) -> f64 {
        let total: f64 = group.members().iter().map(|member| f64::from(member.weight)).sum();
        let share = |member: &Member| f64::from(member.weight) * group.buckets().len() as f64 / total;
        group.members().iter().map(|m| (share(m) - f64::from(m.buckets)).abs()).fold(0.0, f64::max)
    }

    #[test]
    fn a_member_goes_and_comes_back() {
        let mut group = HopGroup::new(8, &[(hop(0), 1), (hop(1), 1), (hop(2), 2)]).unwrap();
        assert_eq!(group.members().iter().map(|member| member.buckets).collect::<Vec<_>>(), [2, 2, 4]);
        let before = group.clone();
        group.remove(hop(2)).unwrap();
        assert_eq!(group.members().iter().map(|member| member.buckets).collect::<Vec<_>>(), [4, 4]);
        assert_eq!(group.buckets()[..4], before.buckets()[..4]);
        group.add(hop(2), 2).unwrap();
        assert_eq!(group.members().iter().map(|member| member.buckets).collect::<Vec<_>>(), [2, 2, 4]);
        for gone in 0..3 {
            group.remove(hop(gone)).unwrap();
        }
        assert_eq!((group.pick(7), group.members().len()), (None, 0));
        group.add(hop(5), 9).unwrap();
        assert_eq!((group.pick(7), group.pick(u32::MAX)), (Some(hop(5)), Some(hop(5))));
    }

    #[test]
    fn members_become_others() {
        let mut group = HopGroup::new(64, &[(hop(0), 1), (hop(1), 1)]).unwrap();
        let before = group.clone();
        group.set_members(&[(hop(2), 2), (hop(1), 1)]).unwrap();
        let before = {
            let mut grown = before;
            grown.grow(256);
            grown
        };
        assert_eq!(
            group.members().iter().map(|m| (m.hop, m.weight)).collect::<Vec<_>>(),
            [(hop(1), 1), (hop(2), 2)]
        );
        let shares: Vec<u32> = group.members().iter().map(|member| member.buckets).collect();
        assert_eq!(shares, [85, 171]);
        check(&group);
        let stay = |i: &usize| group.buckets()[*i] == Some(hop(1));
        assert!((0..256).filter(stay).all(|i| before.buckets()[i] == Some(hop(1))));
        assert_eq!(group.set_members(&[(hop(1), 1), (hop(3), 0)]), Err(GroupError::Weight(hop(3))));
        group.set_members(&[]).unwrap();
        assert_eq!(group.pick(1), None);
    }

    #[test]
    fn what_cannot_be_is_refused() {
        for buckets in [0, 3, 1 << 17] {
            assert_eq!(HopGroup::new(buckets, &[]), Err(GroupError::Buckets(buckets)));
        }
        assert_eq!(HopGroup::new(4, &[(hop(1), 0)]), Err(GroupError::Weight(hop(1))));
        assert_eq!(HopGroup::new(4, &[(hop(1), 1), (hop(1), 2)]), Err(GroupError::Member(hop(1))));
        assert_eq!(HopGroup::new(1, &[(hop(1), 1), (hop(2), 2)]), Err(GroupError::Members(1)));
        let mut group = HopGroup::new(1, &[(hop(1), 1)]).unwrap();
        assert_eq!(group.remove(hop(2)), Err(GroupError::NoMember(hop(2))));
        assert_eq!(group.add(hop(2), 1), Err(GroupError::Members(1)));
        assert_eq!(GroupError::Buckets(3).to_string(), "3 buckets: expected a power of two from 1 to 65536");
    }

    #[test]
    fn light_members_have_buckets_of_their_own() {
        assert_eq!(HopGroup::buckets_for([1, 1]), 256);
        assert_eq!(HopGroup::buckets_for([1, 256, 256]), 8192);
        assert_eq!(HopGroup::buckets_for([1, u32::MAX]), 1 << 14);
        assert_eq!(HopGroup::buckets_for(std::iter::repeat_n(1, 200)), 4096);
        assert_eq!(HopGroup::buckets_for([]), 256);
        let shares = |buckets: usize, weights: [u32; 3]| {
            let members: Vec<_> = weights.iter().zip(0..).map(|(&weight, i)| (hop(i), weight)).collect();
            let group = HopGroup::new(buckets, &members).unwrap();
            check(&group);
            group.members().iter().map(|member| member.buckets).collect::<Vec<_>>()
        };
        assert_eq!(shares(8192, [1, 256, 256]), [16, 4088, 4088]);
        assert_eq!(shares(256, [1, 1000, 1000]), [1, 127, 128]);
        assert_eq!(shares(4, [1, 1, 1000]), [1, 1, 2]);
    }

    #[test]
    fn more_buckets_move_no_flow() {
        let mut group = HopGroup::new(16, &[(hop(0), 1), (hop(1), 3)]).unwrap();
        let before: Vec<_> = (0..5000).map(|flow| group.pick(flow * 977)).collect();
        group.grow(512);
        check(&group);
        assert_eq!(group.buckets().len(), 512);
        assert!((0..5000).map(|flow| group.pick(flow * 977)).eq(before));
        for refused in [500, 256, 1 << 17] {
            group.grow(refused);
            assert_eq!(group.buckets().len(), 512);
        }
    }

    #[test]
    fn a_group_is_made_again_of_its_parts() {
        let mut group = HopGroup::new(256, &[(hop(0), 1), (hop(1), 3)]).unwrap();
        group.set_members(&[(hop(1), 3), (hop(4), 2)]).unwrap();
        let (members, mut buckets) = group.parts();
        assert_eq!(HopGroup::from_parts(&members, &buckets), Ok(group));
        assert_eq!(HopGroup::from_parts(&members, &buckets[1..]), Err(GroupError::Buckets(255)));
        buckets[7] = 2;
        assert_eq!(HopGroup::from_parts(&members, &buckets), Err(GroupError::Index(2)));
        assert_eq!(HopGroup::from_parts(&[], &buckets), HopGroup::new(256, &[]));
    }

    #[test]
    fn flows_of_one_receive_queue_reach_all_members() {
        let members: Vec<_> = (0..8).map(|i| (hop(i), 1)).collect();
        let group = HopGroup::new(64, &members).unwrap();
        let mut seen = [0; 8];
        for flow in 0..8000 {
            // The low seven bits have chosen the queue.
            seen[group.pick(flow << 7 | 5).unwrap().index()] += 1;
        }
        assert!(seen.iter().all(|&count| (900..1100).contains(&count)), "{seen:?}");
    }

    proptest! {
        #[test]
        fn weights_are_kept_within_a_bucket(
            bits in 4..12u32,
            weights in prop::collection::vec(prop_oneof![1..5u32, 1..10_000u32, Just(u32::MAX)], 1..16),
        ) {
            let members: Vec<_> = weights.iter().zip(0..).map(|(&weight, i)| (hop(i), weight)).collect();
            let group = HopGroup::new(1 << bits, &members).unwrap();
            check(&group);
            // Each has one, whoever has to do without it.
            prop_assert!(group.members().iter().all(|member| member.buckets > 0));
            let starved = |weight: &u32| {
                let total: u64 = weights.iter().map(|weight| u64::from(*weight)).sum();
                u64::from(*weight) << bits < total
            };
            if !weights.iter().any(starved) {
                prop_assert!(worst(&group) < 1.0);
            }
        }

        #[test]
        fn other_weights_move_no_more_than_they_must(
            old in prop::collection::vec(1..50u32, 1..12),
            new in prop::collection::vec(1..50u32, 1..12),
        ) {
            let members = |weights: &[u32]| -> Vec<_> {
                weights.iter().zip(0..).map(|(&weight, i)| (hop(i), weight)).collect()
            };
            let mut group = HopGroup::new(1 << 12, &members(&old)).unwrap();
            let before = group.clone();
            group.set_members(&members(&new)).unwrap();
            check(&group);
            let of = |group: &HopGroup, i: u32| group.members().iter().find(|m| m.hop == hop(i)).map_or(0, |m| m.buckets);
            // What the poorer ones lose is what others gain.
            let lost: u32 = (0..12).map(|i| of(&before, i).saturating_sub(of(&group, i))).sum();
            let moved = before.buckets().iter().zip(group.buckets()).filter(|(a, b)| a != b).count();
            prop_assert!(moved <= lost as usize + 2 * 12, "{} of {}", moved, lost);
            prop_assert!(worst(&group) < 2.0, "{}", worst(&group));
            // The same members in another order are the same group.
            let mut reversed = members(&new);
            reversed.reverse();
            let mut again = group.clone();
            again.set_members(&reversed).unwrap();
            prop_assert_eq!(again.buckets(), group.buckets());
        }

        #[test]
        fn changes_move_only_what_they_must(
            bits in 4..10u32,
            steps in prop::collection::vec((0..12u32, 1..20u32), 1..60),
        ) {
            let mut group = HopGroup::new(1 << bits, &[]).unwrap();
            for (index, weight) in steps {
                let before = group.clone();
                let changed = |group: &HopGroup| -> Vec<usize> {
                    (0..1 << bits).filter(|&i| before.buckets()[i] != group.buckets()[i]).collect()
                };
                if group.remove(hop(index)).is_ok() {
                    let own: Vec<_> =
                        (0..1 << bits).filter(|&i| before.buckets()[i] == Some(hop(index))).collect();
                    prop_assert_eq!(changed(&group), own);
                } else {
                    group.add(hop(index), weight).unwrap();
                    let new: Vec<_> =
                        (0..1 << bits).filter(|&i| group.buckets()[i] == Some(hop(index))).collect();
                    prop_assert_eq!(changed(&group), new);
                    // And no more than its share, rounded.
                    let member = group.members().last().unwrap();
                    let total: u32 = group.members().iter().map(|member| member.weight).sum();
                    let share = f64::from(member.weight << bits) / f64::from(total);
                    let least = f64::from(member.buckets == 1);
                    prop_assert!((share - f64::from(member.buckets)).abs() <= 0.5_f64.max(least));
                }
                check(&group);
                // Moving nothing else costs at most one bucket more than rounding does.
                prop_assert!(worst(&group) < 2.0, "{}", worst(&group));
            }
        }
    }
}
