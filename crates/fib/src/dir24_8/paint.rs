//! Writes ranges of addresses with their next hops into the levels.

use std::collections::VecDeque;

use epoch::{Ticket, ticket};

use super::blocks::{Blocks, GROUPS};
use super::entries::Entries;

/// So many groups share a ticket: drawing one takes the epoch's cache line from every reader, and asking whether it
/// has passed takes theirs.
const TOGETHER: usize = 64;

/// Why a table cannot hold what it should.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Misfit {
    /// A next hop needs wider entries.
    NextHop,
    /// Readers that never pass a quiescent point keep all groups.
    Groups,
}

/// Which groups are in use.
pub(super) struct Groups {
    /// Groups from this one on have never been used.
    fresh: u32,
    free: Vec<u32>,
    /// Out of use, but readers may still look at them.
    retired: Vec<u32>,
    /// Out of use since before the ticket was drawn.
    waiting: VecDeque<(Ticket, Vec<u32>)>,
    /// The next hops of the /24 that is being cut.
    values: [u32; 256],
    /// /24s that have been cut; see [`Blocks::cut`].
    cut: usize,
}

impl Default for Groups {
    fn default() -> Self {
        Groups {
            fresh: 0,
            free: Vec::new(),
            retired: Vec::new(),
            waiting: VecDeque::new(),
            values: [0; 256],
            cut: 0,
        }
    }
}

impl Groups {
    fn allocate(&mut self) -> Result<u32, Misfit> {
        if let Some(group) = self.free.pop() {
            return Ok(group);
        }
        if self.fresh == GROUPS {
            return Err(Misfit::Groups);
        }
        self.fresh += 1;
        Ok(self.fresh - 1)
    }

    /// No entry leads to the group any more.
    fn retire(&mut self, group: u32) {
        self.retired.push(group);
        if self.retired.len() < TOGETHER {
            return;
        }
        self.waiting.push_back((ticket(), std::mem::take(&mut self.retired)));
        while let Some((_, groups)) = self.waiting.pop_front_if(|(ticket, _)| ticket.passed()) {
            self.free.extend(groups);
        }
    }

    /// Groups ever used, and those of them that are out of use.
    #[cfg(test)]
    pub fn count(&self) -> (u32, usize) {
        let waiting: usize = self.waiting.iter().map(|(_, groups)| groups.len()).sum();
        (self.fresh, self.free.len() + self.retired.len() + waiting)
    }
}

/// Takes ranges of addresses with their next hops, in order and without gaps, from the start of a /24 to the end of one,
/// and writes each entry once, with its final value, if it has changed.
pub(super) struct Painter<'b, E: Entries> {
    pub blocks: &'b Blocks<E>,
    pub groups: &'b mut Groups,
}

impl<E: Entries> Painter<'_, E> {
    /// The addresses from `first` to `last` get these bits.
    pub fn paint(&mut self, first: u32, last: u32, bits: u32) -> Result<(), Misfit> {
        if bits >= E::CUT {
            return Err(Misfit::NextHop);
        }
        let mut at = first;
        loop {
            let end = if at & 255 != 0 || last - at < 255 {
                let end = last.min(at | 255);
                self.groups.values[(at & 255) as usize..=(end & 255) as usize].fill(bits);
                if end & 255 == 255 {
                    self.set_cut(at >> 8)?;
                }
                end
            } else {
                // All whole blocks.
                let end = last - last.wrapping_add(1) % 256;
                self.set(at >> 8, end >> 8, bits);
                end
            };
            if end == last {
                return Ok(());
            }
            at = end + 1;
        }
    }

    /// Sets the next hop of whole blocks.
    fn set(&mut self, first: u32, last: u32, bits: u32) {
        let entries = self.blocks.entries();
        for block in first..=last {
            let old = entries.load(block);
            if old != bits {
                entries.store(block, bits);
                if old == E::CUT {
                    self.blocks.number(block).into_iter().for_each(|group| self.groups.retire(group));
                }
            }
        }
    }

    /// Sets the next hops of a block to those in `values`.
    fn set_cut(&mut self, block: u32) -> Result<(), Misfit> {
        let values = &self.groups.values;
        if values.iter().all(|&bits| bits == values[0]) {
            self.set(block, block, values[0]);
            return Ok(());
        }
        let is_cut = self.blocks.entries().load(block) == E::CUT;
        if let Some(group) = self.blocks.number(block).filter(|_| is_cut) {
            self.blocks.fill(group, &self.groups.values);
            return Ok(());
        }
        let group = self.groups.allocate()?;
        self.blocks.fill(group, &self.groups.values);
        self.blocks.cut(block, group, &mut self.groups.cut);
        Ok(())
    }
}
