//! Writes ranges of addresses with their next hops into the levels.

use super::runs::{Leaf, Levels, Node, SLOTS};
use super::store::{Misfit, Store};

/// Addresses of a node.
const NODE: u32 = 256 * SLOTS as u32;

/// Takes ranges of addresses with their next hops, in order and without gaps, and writes each word once, with its
/// final value, if it has changed.
pub(super) struct Painter<'b, L> {
    levels: &'b Levels<L>,
    store: &'b mut Store,
    /// The node that is being changed; its leaves as they were and as they shall be.
    open: Option<usize>,
    old: [u32; SLOTS],
    new: [u32; SLOTS],
    /// The next hops of the block that is being cut.
    cut: [u32; 256],
}

impl<'b, L: Leaf> Painter<'b, L> {
    pub fn new(levels: &'b Levels<L>, store: &'b mut Store) -> Painter<'b, L> {
        Painter { levels, store, open: None, old: [0; SLOTS], new: [0; SLOTS], cut: [0; 256] }
    }

    /// The addresses from `first` to `last` get these bits. What was painted shows at the latest after
    /// [`finish`](Painter::finish).
    pub fn paint(&mut self, first: u32, last: u32, bits: u32) -> Result<(), Misfit> {
        if bits >= L::GROUP {
            return Err(Misfit::Narrow);
        }
        let mut at = first;
        loop {
            let end = if at % 256 != 0 || last - at < 255 {
                let end = last.min(at | 255);
                self.cut[(at & 255) as usize..=(end & 255) as usize].fill(bits);
                if end & 255 == 255 {
                    self.cut_block(at >> 8)?;
                }
                end
            } else {
                // Whole blocks, as far as this node goes.
                let end = last.min(at | (NODE - 1));
                let end = end - end.wrapping_add(1) % 256;
                self.blocks(at >> 8, end >> 8, bits)?;
                end
            };
            if end == last {
                return Ok(());
            }
            at = end + 1;
        }
    }

    /// Writes what is left to write.
    pub fn finish(&mut self) -> Result<(), Misfit> {
        let Some(index) = self.open.take() else { return Ok(()) };
        if self.old == self.new {
            return Ok(());
        }
        let mut starts = 0;
        for i in 1..SLOTS {
            starts |= u32::from(self.new[i] != self.new[i - 1]) << i;
        }
        let before = self.levels.node(index);
        if starts == 0 {
            let node = self.store.shared(self.new[0], self.levels)?;
            self.levels.set_node(index, node);
            self.store.retire_node(before, self.old[0]);
        } else if starts == before.starts() {
            // Runs keep their places: each leaf changes by itself.
            self.write(before);
        } else {
            let count = starts.count_ones() as usize + 1;
            let node = Node::new(self.store.leaves(count, self.levels.capacity())?, starts);
            self.write(node);
            self.levels.set_node(index, node);
            self.store.retire_node(before, self.old[0]);
        }
        for (&old, &new) in self.old.iter().zip(&self.new) {
            if old & L::GROUP != 0 && old != new {
                self.store.retire_group(old & !L::GROUP);
            }
        }
        Ok(())
    }

    /// Writes the leaves of a node.
    fn write(&self, node: Node) {
        let leaves = self.levels.leaves(node.first_leaf(), node.runs());
        let mut block = 0;
        let mut rest = node.starts();
        for leaf in leaves {
            if leaf.load() != self.new[block] {
                leaf.store(self.new[block]);
            }
            block = rest.trailing_zeros() as usize;
            rest &= rest.wrapping_sub(1);
        }
    }

    /// The blocks from `first` to `last`, all of one node, get these bits.
    fn blocks(&mut self, first: u32, last: u32, bits: u32) -> Result<(), Misfit> {
        let (index, from, to) = place(first, last);
        if (from, to) != (0, SLOTS - 1) {
            self.open(index)?;
            self.new[from..=to].fill(bits);
            return Ok(());
        }
        self.finish()?;
        let before = self.levels.node(index);
        let first_leaf = self.levels.leaves(before.first_leaf(), 1)[0].load();
        if before.runs() == 1 && first_leaf == bits {
            return Ok(());
        }
        let node = self.store.shared(bits, self.levels)?;
        self.levels.set_node(index, node);
        for leaf in self.levels.leaves(before.first_leaf(), before.runs()) {
            let old = leaf.load();
            if old & L::GROUP != 0 {
                self.store.retire_group(old & !L::GROUP);
            }
        }
        self.store.retire_node(before, first_leaf);
        Ok(())
    }

    /// The block gets the next hops in `cut`.
    fn cut_block(&mut self, block: u32) -> Result<(), Misfit> {
        let (index, slot, _) = place(block, block);
        self.open(index)?;
        if self.cut.iter().all(|&bits| bits == self.cut[0]) {
            self.new[slot] = self.cut[0];
            return Ok(());
        }
        let old = self.old[slot];
        let number =
            if old & L::GROUP != 0 { old & !L::GROUP } else { self.store.group(L::GROUPS)? };
        for (cell, &bits) in self.levels.group_to_fill(number).iter().zip(&self.cut) {
            if cell.load() != bits {
                cell.store(bits);
            }
        }
        self.new[slot] = L::GROUP | number;
        Ok(())
    }

    /// Begins to change a node, after writing the one before.
    fn open(&mut self, index: usize) -> Result<(), Misfit> {
        if self.open == Some(index) {
            return Ok(());
        }
        self.finish()?;
        let node = self.levels.node(index);
        let leaves = self.levels.leaves(node.first_leaf(), node.runs());
        let mut run = 0;
        for (slot, old) in self.old.iter_mut().enumerate() {
            run += (node.starts() >> slot & 1) as usize;
            *old = leaves[run].load();
        }
        self.new = self.old;
        self.open = Some(index);
        Ok(())
    }
}

/// The node of these blocks, and which of its blocks they are.
fn place(first: u32, last: u32) -> (usize, usize, usize) {
    let slots = SLOTS as u32;
    ((first / slots) as usize, (first % slots) as usize, (last % slots) as usize)
}
