//! The same packets through two routers: every difference must have been foreseen.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use crate::exchange::{Arrival, CHUNK, Exchange};
use crate::output::Output;
use crate::random_packets::Sent;
use crate::report::{self, thousands};
use crate::view::hex_dump;
use crate::{Error, Result};

/// How long a router may still send something after its chunk, before a difference counts.
const GRACE: Duration = Duration::from_millis(40);
/// How many unforeseen differences are described in full.
const DESCRIBED: usize = 20;
/// How many sorts of them are listed.
const SORTS: usize = 60;

/// What two routers made of one packet, when it is not the same.
#[derive(Debug)]
pub struct Difference<'a> {
    /// The packet.
    pub sent: &'a Sent,
    /// Outputs of the router under test, in order of [`Output`].
    pub ours: &'a [Output],
    /// Outputs of the reference.
    pub theirs: &'a [Output],
}

/// A difference that is foreseen.
pub struct Foreseen {
    /// In a few words.
    pub name: &'static str,
    /// The section that allows or demands what we do.
    pub rfc: &'static str,
    /// Why the two differ.
    pub why: &'static str,
    /// Whether a difference is of this sort.
    pub matches: fn(&Difference) -> bool,
}

/// The result of a comparison.
#[derive(Debug, Default)]
pub struct Comparison {
    /// Packets sent.
    pub sent: usize,
    /// Packets for which the reference sent something on, answered with an error or otherwise, or kept silent.
    pub forwarded: usize,
    /// See above.
    pub refused: usize,
    /// See above.
    pub answered: usize,
    /// See above.
    pub dropped: usize,
    /// Differences by name of [`Foreseen`].
    pub foreseen: BTreeMap<&'static str, usize>,
    /// Differences that nobody foresaw.
    pub unforeseen: usize,
    /// How many of them there are of each sort: what is special about the packet, and what the two made of it.
    pub sorts: BTreeMap<String, usize>,
    /// The first of them, in full.
    pub descriptions: Vec<String>,
}

impl Comparison {
    /// Passes `packets` through both routers, a chunk at a time, and compares packet by packet.
    ///
    /// # Errors
    /// If a router stops forwarding, or sends something that no router may send or that belongs to no packet.
    pub fn run(
        ours: &mut Exchange,
        theirs: &mut Exchange,
        packets: &[Sent],
        list: &[Foreseen],
    ) -> Result<Comparison> {
        let mut comparison = Comparison::default();
        for chunk in packets.chunks(CHUNK) {
            let mut a = Outputs::of(ours, chunk)?;
            let mut b = Outputs::of(theirs, chunk)?;
            let unforeseen = |sent: &Sent| {
                let (ours, theirs) = (a.get(sent.id), b.get(sent.id));
                ours != theirs && find(list, &Difference { sent, ours, theirs }).is_none()
            };
            if chunk.iter().any(unforeseen) {
                a.add(&ours.settle(GRACE)?)?;
                b.add(&theirs.settle(GRACE)?)?;
            }
            for sent in chunk {
                let (ours, theirs) = (a.take(sent.id), b.take(sent.id));
                comparison.note(&Difference { sent, ours: &ours, theirs: &theirs }, list);
            }
            a.nothing_left()?;
            b.nothing_left()?;
        }
        Ok(comparison)
    }

    fn note(&mut self, difference: &Difference, list: &[Foreseen]) {
        self.sent += 1;
        match difference.theirs.first() {
            Some(Output::Forwarded { .. }) => self.forwarded += 1,
            Some(Output::Error { .. }) => self.refused += 1,
            Some(Output::Own { .. }) => self.answered += 1,
            None => self.dropped += 1,
        }
        if difference.ours == difference.theirs {
            return;
        }
        if let Some(foreseen) = find(list, difference) {
            *self.foreseen.entry(foreseen.name).or_default() += 1;
            return;
        }
        self.unforeseen += 1;
        *self.sorts.entry(difference.sort()).or_default() += 1;
        if self.descriptions.len() < DESCRIBED {
            self.descriptions.push(difference.describe());
        }
    }

    /// The counts, the table of foreseen differences, and the unforeseen ones with hex dumps.
    pub fn report(&self, list: &[Foreseen]) -> String {
        let mut text = format!(
            "{} packets: {} forwarded, {} refused with an ICMP error, {} answered, {} dropped by the reference\n\n",
            thousands(self.sent),
            thousands(self.forwarded),
            thousands(self.refused),
            thousands(self.answered),
            thousands(self.dropped)
        );
        let rows: Vec<Vec<String>> = list
            .iter()
            .map(|foreseen| {
                let count = self.foreseen.get(foreseen.name).copied().unwrap_or(0);
                vec![
                    thousands(count),
                    foreseen.name.to_owned(),
                    foreseen.rfc.to_owned(),
                    foreseen.why.to_owned(),
                ]
            })
            .collect();
        if !rows.is_empty() {
            text.push_str(&report::table(&["count", "foreseen difference", "see", "why"], &rows));
        }
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{} unforeseen differences", thousands(self.unforeseen));
        let mut sorts: Vec<_> = self.sorts.iter().collect();
        sorts.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
        let row = |(sort, count): &(&String, &usize)| vec![thousands(**count), (*sort).clone()];
        let rows: Vec<Vec<String>> = sorts.iter().take(SORTS).map(row).collect();
        if !rows.is_empty() {
            text.push_str(&report::table(&["count", "sort"], &rows));
        }
        for description in &self.descriptions {
            text.push('\n');
            text.push_str(description);
        }
        text
    }
}

/// What foresees a difference.
fn find<'a>(list: &'a [Foreseen], difference: &Difference) -> Option<&'a Foreseen> {
    list.iter().find(|foreseen| (foreseen.matches)(difference))
}

impl Difference<'_> {
    fn sort(&self) -> String {
        let all = |outputs: &[Output]| match outputs {
            [] => "nothing".to_owned(),
            some => some.iter().map(Output::sort).collect::<Vec<_>>().join(" + "),
        };
        format!("{}: {}, reference {}", self.sent.notes.join(", "), all(self.ours), all(self.theirs))
    }

    fn describe(&self) -> String {
        let Sent { id, port, frame, notes } = self.sent;
        let mut text =
            format!("packet {id} into port {port}, {} octets: {}\n", frame.len(), notes.join(", "));
        text.push_str(&hex_dump(&frame[..frame.len().min(128)]));
        for (who, outputs) in [("under test", self.ours), ("reference", self.theirs)] {
            if outputs.is_empty() {
                text.push_str(&format!("{who}: nothing\n"));
            }
            for output in outputs {
                text.push_str(&format!("{who}: {}", output.dump()));
            }
        }
        text
    }
}

/// What came out of one router for one chunk, by identification.
struct Outputs(BTreeMap<u16, Vec<Output>>);

impl Outputs {
    fn of(exchange: &mut Exchange, chunk: &[Sent]) -> Result<Outputs> {
        let mut outputs = Outputs(BTreeMap::new());
        outputs.add(&exchange.pass(chunk.iter().map(|sent| (sent.port, sent.frame.as_slice())))?)?;
        Ok(outputs)
    }

    fn add(&mut self, arrivals: &[Arrival]) -> Result<()> {
        for arrival in arrivals {
            let (id, output) = Output::read(arrival)?;
            let outputs = self.0.entry(id).or_default();
            outputs.push(output);
            outputs.sort();
        }
        Ok(())
    }

    fn get(&self, id: u16) -> &[Output] {
        self.0.get(&id).map_or(&[], Vec::as_slice)
    }

    fn take(&mut self, id: u16) -> Vec<Output> {
        self.0.remove(&id).unwrap_or_default()
    }

    fn nothing_left(&self) -> Result<()> {
        match self.0.iter().next() {
            None => Ok(()),
            Some((id, outputs)) => {
                let described: String = outputs.iter().map(Output::dump).collect();
                Err(Error::new(format!(
                    "something came out for packet {id}, which was not sent:\n{described}"
                )))
            }
        }
    }
}
