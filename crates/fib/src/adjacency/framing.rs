//! Headers that workers find in place of those of neighbours: where frames cross something else before they come to the
//! link of their next hop.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::{Adjacencies, Adjacency, Forwarding};

/// What a frame to a next hop begins with, by the next hop's number ([`NextHopId::bits`](crate::NextHopId::bits)); `None` if that
/// is the adjacency's own header.
type Header = dyn Fn(u32, &Adjacency) -> Option<[u8; Adjacency::HEADER_LEN]> + Send + Sync;

/// Which [`Adjacencies::set_framing`] it was.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FramingId(u64);

/// What makes headers.
#[derive(Clone)]
pub(super) struct Framing {
    header: Arc<Header>,
    id: FramingId,
}

/// Which list it is of all that there ever were, and which framing made its headers.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Version {
    number: u64,
    framing: FramingId,
}

/// A number that nothing else has; none is 0.
fn unique() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

impl fmt::Debug for Framing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Framing({})", self.id.0)
    }
}

impl Version {
    /// That of a new list, which gets its headers.
    pub fn of(framing: Option<&Framing>, list: &mut [Adjacency]) -> Version {
        let Some(Framing { header, id }) = framing else {
            return Version { number: unique(), framing: FramingId::default() };
        };
        // Next hops have numbers of 32 bits.
        for (number, adjacency) in (0u32..).zip(list).filter(|(_, adjacency)| adjacency.is_plain()) {
            if let Some(header) = header(number, adjacency) {
                adjacency.header = header;
            }
        }
        Version { number: unique(), framing: *id }
    }
}

impl Forwarding {
    /// A number that no other list has, of these adjacencies or of others, and none had before; never 0.
    #[inline]
    pub fn version(&self) -> u64 {
        self.version.number
    }

    /// Which framing the headers in this list are of.
    #[inline]
    pub fn framing(&self) -> FramingId {
        self.version.framing
    }
}

impl Adjacencies {
    /// From now on workers find in each [plain](Adjacency::is_plain) adjacency the header that `header` gives for the next hop's
    /// number and the adjacency. Which adjacencies are [known](Adjacencies::known), and what watchers are told, stays as it is.
    /// Takes the place of any framing before.
    ///
    /// To be called before next hops are known whose headers an earlier framing has made.
    pub fn set_framing(
        &self,
        header: impl Fn(u32, &Adjacency) -> Option<[u8; Adjacency::HEADER_LEN]> + Send + Sync + 'static,
    ) -> FramingId {
        let mut known = self.lock();
        let framing = Framing { header: Arc::new(header), id: FramingId(unique()) };
        self.forwarding.edit(|old| {
            let mut new = old.clone();
            new.version = Version::of(Some(&framing), &mut new.list);
            new
        });
        known.framing.insert(framing).id
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AdjacencyChanges, NextHop};
    use epoch::Reader;

    fn hop(port: u32) -> NextHop {
        NextHop { gateway: None, port }
    }

    fn adjacency(output: u16) -> Adjacency {
        Adjacency { header: [7; Adjacency::HEADER_LEN], output }
    }

    fn heads(all: &Adjacencies, reader: &Reader) -> Vec<u8> {
        all.read(reader).list().iter().map(|adjacency| adjacency.header[0]).collect()
    }

    #[test]
    fn workers_find_headers_of_the_framing_and_others_the_neighbours() {
        let (all, reader) = (Adjacencies::default(), Reader::new());
        let hops = [hop(1), hop(2), hop(3)];
        let tagged = Adjacency::tagged([7; 6], [7; 6], 9, 3);
        let change = |adjacencies: &[(NextHop, Adjacency)]| {
            let adjacencies = adjacencies.iter().map(|(hop, to)| (*hop, Some(*to))).collect();
            all.change(AdjacencyChanges { adjacencies, ..AdjacencyChanges::default() }, &hops);
        };
        change(&[(hop(1), adjacency(1))]);
        let before = (all.read(&reader).version(), all.read(&reader).framing());
        // Of what leaves by output 1 or more: the number of the next hop.
        let id = all.set_framing(|number, to| (to.output > 0).then_some([number as u8; 14]));
        assert_eq!(heads(&all, &reader), [0, 1, 0, 0]);
        change(&[(hop(1), adjacency(0)), (hop(2), adjacency(2)), (hop(3), tagged)]);
        assert_eq!(heads(&all, &reader), [0, 7, 2, 7]);
        assert_eq!(all.known(), [(hop(1), adjacency(0)), (hop(2), adjacency(2)), (hop(3), tagged)]);
        let now = (all.read(&reader).version(), all.read(&reader).framing());
        assert!(now.1 == id && before.1 != id && now.0 != before.0);
        change(&[]);
        assert!(all.read(&reader).version() != now.0, "another list");
        assert!(all.read(&reader).version() != Adjacencies::default().read(&reader).version());
        assert!(all.set_framing(|_, _| None) != id);
    }
}
