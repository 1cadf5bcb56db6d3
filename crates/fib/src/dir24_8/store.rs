//! What the writer knows beside the levels: which leaves and groups are in use.

use std::collections::{HashMap, VecDeque};

use epoch::{Ticket, ticket};

use super::runs::{Leaf, Levels, NODES, Node, SLOTS};

/// So many pieces share a ticket: drawing one takes the epoch's line from every reader, and asking whether it has
/// passed takes theirs.
const TOGETHER: usize = 64;

/// Why the levels cannot hold what they should.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Misfit {
    /// A next hop or a group needs wider leaves.
    Narrow,
    /// There is no leaf left.
    Full,
}

/// Something that readers may still look at.
#[derive(Clone, Copy)]
enum Piece {
    /// Neighbouring leaves.
    Leaves { first: u32, count: u32 },
    /// A group.
    Group(u32),
}

/// The leaf of all nodes that have only one run, to the same place.
struct Shared {
    leaf: u32,
    nodes: u32,
}

/// Leaves and groups in use, and those that will be free when no reader looks at them any more.
pub(super) struct Store {
    /// Leaves from this one on have never been used.
    fresh: u32,
    /// Free leaves, by how many lie together.
    free: [Vec<u32>; SLOTS + 1],
    /// Groups from this one on have never been used.
    pub fresh_group: u32,
    free_groups: Vec<u32>,
    /// Out of use.
    retired: Vec<Piece>,
    /// Out of use before the ticket was drawn.
    waiting: VecDeque<(Ticket, Vec<Piece>)>,
    shared: HashMap<u32, Shared>,
}

impl Store {
    /// As [`Levels::new`] leaves them: the first leaf is that of all nodes.
    pub fn new() -> Store {
        Store {
            fresh: 1,
            free: std::array::from_fn(|_| Vec::new()),
            fresh_group: 0,
            free_groups: Vec::new(),
            retired: Vec::new(),
            waiting: VecDeque::new(),
            shared: HashMap::from([(0, Shared { leaf: 0, nodes: NODES as u32 })]),
        }
    }

    /// `count` neighbouring leaves, at most [`SLOTS`].
    pub fn leaves(&mut self, count: usize, capacity: usize) -> Result<u32, Misfit> {
        if let Some(first) = self.free[count].pop() {
            return Ok(first);
        }
        let end = self.fresh as usize + count;
        if end <= capacity {
            self.fresh = end as u32;
            return Ok(end as u32 - count as u32);
        }
        self.wait();
        self.collect();
        let size = (count..=SLOTS).find(|&size| !self.free[size].is_empty()).ok_or(Misfit::Full)?;
        let first = self.free[size].pop().ok_or(Misfit::Full)?;
        self.free[size - count].push(first + count as u32);
        Ok(first)
    }

    /// A group out of fewer than `limit`.
    pub fn group(&mut self, limit: u32) -> Result<u32, Misfit> {
        if let Some(group) = self.free_groups.pop() {
            return Ok(group);
        }
        if self.fresh_group == limit {
            self.wait();
            self.collect();
            return self.free_groups.pop().ok_or(Misfit::Narrow);
        }
        self.fresh_group += 1;
        Ok(self.fresh_group - 1)
    }

    /// The group has been unlinked.
    pub fn retire_group(&mut self, group: u32) {
        self.retire(Piece::Group(group));
    }

    /// The node, whose only leaf has or had these bits if there is only one, has been unlinked.
    pub fn retire_node(&mut self, node: Node, bits: u32) {
        let (first, count) = (node.first_leaf() as u32, node.runs() as u32);
        if count > 1 {
            self.retire(Piece::Leaves { first, count });
        } else if let Some(shared) = self.shared.get_mut(&bits) {
            shared.nodes -= 1;
            if shared.nodes == 0 {
                self.shared.remove(&bits);
                self.retire(Piece::Leaves { first, count });
            }
        }
    }

    /// A node of one run to `bits`.
    pub fn shared<L: Leaf>(&mut self, bits: u32, levels: &Levels<L>) -> Result<Node, Misfit> {
        if let Some(shared) = self.shared.get_mut(&bits) {
            shared.nodes += 1;
            return Ok(Node::new(shared.leaf, 0));
        }
        let leaf = self.leaves(1, levels.capacity())?;
        levels.leaves(leaf as usize, 1)[0].store(bits);
        self.shared.insert(bits, Shared { leaf, nodes: 1 });
        Ok(Node::new(leaf, 0))
    }

    fn retire(&mut self, piece: Piece) {
        self.retired.push(piece);
        if self.retired.len() >= TOGETHER {
            self.wait();
            self.collect();
        }
    }

    /// Draws a ticket for what has been retired.
    fn wait(&mut self) {
        if !self.retired.is_empty() {
            self.waiting.push_back((ticket(), std::mem::take(&mut self.retired)));
        }
    }

    /// What no reader looks at any more can be used again.
    fn collect(&mut self) {
        while let Some((_, pieces)) = self.waiting.pop_front_if(|(ticket, _)| ticket.passed()) {
            for piece in pieces {
                match piece {
                    Piece::Leaves { first, count } => self.free[count as usize].push(first),
                    Piece::Group(group) => self.free_groups.push(group),
                }
            }
        }
    }

    /// Groups that are out of use, whether readers look at them or not.
    #[cfg(test)]
    pub fn idle_groups(&self) -> usize {
        let waiting = self.waiting.iter().flat_map(|(_, pieces)| pieces).chain(&self.retired);
        self.free_groups.len() + waiting.filter(|piece| matches!(piece, Piece::Group(_))).count()
    }
}
