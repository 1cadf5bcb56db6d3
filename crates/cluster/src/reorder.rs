//! How much reordering there is: the paper's measure, RFC 4737, RFC 5236.
//!
//! Numbers of a flow grow in the order in which its packets entered. A packet is reordered if one with a higher number came
//! before it (RFC 4737 §3). The paper counts sequences: ⟨p1, p4, p2, p3, p5⟩ has one, so an event is a maximal run of
//! reordered packets of a flow.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

/// Packets of a flow that are remembered to tell how far others came late.
const REMEMBERED: usize = 64;

/// Watches packets of many flows where they leave.
#[derive(Debug, Clone, Default)]
pub struct ReorderMeter {
    flows: HashMap<u64, Flow>,
    report: Report,
}

#[derive(Debug, Clone, Default)]
struct Flow {
    arrived: u64,
    /// Those that came before everything higher: when and which. The last is the highest of all.
    highest: VecDeque<(u64, u64)>,
    /// The last three that came, the last first.
    last: [Option<u64>; 3],
    in_run: bool,
    is_hit: bool,
}

/// What a [`ReorderMeter`] saw.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Report {
    /// Packets.
    pub packets: u64,
    /// Flows.
    pub flows: u64,
    /// Maximal runs of reordered packets of a flow: the paper's reordered sequences.
    pub events: u64,
    /// Flows with at least one.
    pub flows_hit: u64,
    /// Reordered packets (RFC 4737 §3.3).
    pub reordered: u64,
    /// The largest extent of reordering, in packets (RFC 4737 §4.2.1); what exceeds 64 may be told as less.
    pub max_extent: u64,
    /// Packets before which three or more higher ones came in a row: what TCP takes for a loss (RFC 4737 §5.2.1, n = 3).
    pub three_reordered: u64,
}

impl Report {
    /// Events per packet.
    pub fn event_ratio(&self) -> f64 {
        ratio(self.events, self.packets)
    }

    /// Reordered packets per packet (RFC 4737 §3.4).
    pub fn reordered_ratio(&self) -> f64 {
        ratio(self.reordered, self.packets)
    }
}

fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

impl ReorderMeter {
    /// A packet left. No number comes twice in a flow.
    pub fn packet(&mut self, flow: u64, number: u64) {
        let report = &mut self.report;
        let flow = self.flows.entry(flow).or_insert_with(|| {
            report.flows += 1;
            Flow::default()
        });
        report.packets += 1;
        let is_reordered = flow.highest.back().is_some_and(|&(_, highest)| highest > number);
        if is_reordered {
            report.reordered += 1;
            report.events += u64::from(!flow.in_run);
            report.flows_hit += u64::from(!flow.is_hit);
            flow.is_hit = true;
            let first = flow.highest.partition_point(|&(_, other)| other < number);
            report.max_extent = report.max_extent.max(flow.arrived - flow.highest[first].0);
            let three = flow.last.iter().all(|last| last.is_some_and(|last| last > number));
            report.three_reordered += u64::from(three);
        } else {
            if flow.highest.len() == REMEMBERED {
                flow.highest.pop_front();
            }
            flow.highest.push_back((flow.arrived, number));
        }
        flow.in_run = is_reordered;
        flow.last = [Some(number), flow.last[0], flow.last[1]];
        flow.arrived += 1;
    }

    /// What it saw so far.
    pub fn report(&self) -> Report {
        self.report
    }
}

/// Reorder density (RFC 5236 §4): how many packets came how much later (positive) or earlier than their place. Lost packets
/// have no place; duplicates do not count; who comes more than `threshold` places late is taken for lost.
pub fn reorder_density(arrivals: &[u64], threshold: i64) -> BTreeMap<i64, u64> {
    let mut density = BTreeMap::new();
    for (_, displacement) in displacements(arrivals, threshold) {
        *density.entry(displacement).or_default() += 1;
    }
    density
}

/// Reorder buffer-occupancy density (RFC 5236 §5): after how many arrivals a buffer that restores the order would hold how
/// many packets. Lost is what [`reorder_density`] takes for lost.
pub fn buffer_density(arrivals: &[u64], threshold: i64) -> BTreeMap<u64, u64> {
    let counted: Vec<u64> =
        displacements(arrivals, threshold).into_iter().map(|(number, _)| number).collect();
    let mut expected = counted.clone();
    expected.sort_unstable();
    let mut expected = expected.into_iter().peekable();
    let mut buffer = BTreeSet::new();
    let mut density = BTreeMap::new();
    for number in counted {
        buffer.insert(number);
        while expected.next_if(|next| buffer.remove(next)).is_some() {}
        *density.entry(buffer.len() as u64).or_default() += 1;
    }
    density
}

/// The packets that count, with their displacements: the place in which each came, less its own.
fn displacements(arrivals: &[u64], threshold: i64) -> Vec<(u64, i64)> {
    let mut seen = BTreeSet::new();
    let mut counted: Vec<u64> = arrivals.iter().copied().filter(|&number| seen.insert(number)).collect();
    loop {
        let mut places = counted.clone();
        places.sort_unstable();
        let displaced: Vec<(u64, i64)> = counted
            .iter()
            .zip(places)
            .map(|(&number, place)| (number, place.wrapping_sub(number) as i64))
            .collect();
        let late = displaced.iter().map(|&(_, by)| by).max().unwrap_or(0);
        if late <= threshold.max(0) {
            return displaced;
        }
        // The latest go first: without them others may be in their place.
        counted = displaced.iter().filter(|&&(_, by)| by < late).map(|&(number, _)| number).collect();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn meter(numbers: &[u64]) -> Report {
        let mut meter = ReorderMeter::default();
        numbers.iter().for_each(|&number| meter.packet(7, number));
        meter.report()
    }

    #[test]
    fn the_papers_example_is_one_event() {
        let report = meter(&[1, 4, 2, 3, 5]);
        let expected = Report {
            packets: 5,
            flows: 1,
            events: 1,
            flows_hit: 1,
            reordered: 2,
            max_extent: 2,
            three_reordered: 0,
        };
        assert_eq!(report, expected);
        assert_eq!((report.event_ratio(), report.reordered_ratio()), (0.2, 0.4));
        assert_eq!(meter(&[]).event_ratio(), 0.0);
    }

    #[test]
    fn flows_are_counted_apart() {
        let mut meter = ReorderMeter::default();
        for (flow, number) in [(1, 9), (2, 1), (2, 2), (1, 8), (2, 0)] {
            meter.packet(flow, number);
        }
        let report = meter.report();
        assert_eq!((report.flows, report.flows_hit, report.events, report.reordered), (2, 2, 2, 2));
    }

    #[test]
    fn an_example_as_in_rfc_5236() {
        // Packet 2 is lost, 3 comes twice; displacements 0, -1, 1, 0, -2, 0, 2.
        let arrivals = [1, 4, 3, 5, 3, 8, 7, 6];
        assert_eq!(reorder_density(&arrivals, 8), [(-2, 1), (-1, 1), (0, 3), (1, 1), (2, 1)].into());
        assert_eq!(buffer_density(&arrivals, 8), [(0, 4), (1, 2), (2, 1)].into());
        // 6 is late by 2: lost. Then 8 and 7 change places.
        assert_eq!(reorder_density(&arrivals, 1), [(-1, 2), (0, 2), (1, 2)].into());
        assert_eq!(reorder_density(&arrivals, 0).into_keys().collect::<Vec<_>>(), [0]);
        assert_eq!((reorder_density(&[], 3).len(), buffer_density(&[], 3).len()), (0, 0));
    }

    proptest! {
        #[test]
        fn as_the_definitions_say(order in Just((0..40u64).collect::<Vec<_>>()).prop_shuffle(), lost in 0usize..20) {
            let numbers = &order[lost..];
            let report = meter(numbers);
            // Everything by looking at all pairs.
            let higher = |i: usize| numbers[..i].iter().position(|&other| other > numbers[i]);
            let reordered: Vec<usize> = (0..numbers.len()).filter(|&i| higher(i).is_some()).collect();
            let events = reordered.iter().filter(|&&i| !reordered.contains(&(i - 1))).count();
            let extent = reordered.iter().map(|&i| i - higher(i).unwrap()).max().unwrap_or(0);
            let three = (3..numbers.len()).filter(|&i| numbers[i - 3..i].iter().all(|&n| n > numbers[i])).count();
            prop_assert_eq!(report.reordered, reordered.len() as u64);
            prop_assert_eq!(report.events, events as u64);
            prop_assert_eq!(report.max_extent, extent as u64);
            prop_assert_eq!(report.three_reordered, three as u64);
            // RFC 5236: without threshold, places are ranks; all densities sum up to the packets.
            let density = reorder_density(numbers, i64::MAX);
            let mut naive = BTreeMap::new();
            for (i, &number) in numbers.iter().enumerate() {
                let place = (0..40).filter(|n| numbers.contains(n)).nth(i).unwrap();
                *naive.entry(place as i64 - number as i64).or_insert(0u64) += 1;
            }
            prop_assert_eq!(density, naive);
            let mut buffers = BTreeMap::new();
            for i in 0..numbers.len() {
                let is_missing = |n: u64| numbers[i + 1..].contains(&n);
                let held = numbers[..=i].iter().filter(|&&n| (0..n).any(is_missing)).count();
                *buffers.entry(held as u64).or_insert(0u64) += 1;
            }
            prop_assert_eq!(buffer_density(numbers, i64::MAX), buffers);
        }
    }
}
