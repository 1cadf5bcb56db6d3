//! What a node of the model has.

use crate::news::News;
use crate::numbering::Numbering;
use crate::path::{Config, Order, PathChooser, Policy};
use crate::resequence::Resequencer;
use crate::shares::{Links, small};

use super::Setup;

#[derive(Debug)]
pub(super) struct Node {
    /// Paths of what comes in here; at nodes without lines, of what passes on its first way.
    pub chooser: PathChooser,
    /// By output node.
    pub numbers: Vec<Numbering>,
    /// By input node; frames of the model.
    pub streams: Vec<Resequencer<u32>>,
    /// In a fly: what it knows of the links of others, and its present life.
    pub news: Option<News>,
    pub life: u8,
    /// What resequencers let go, empty between calls.
    pub out: Vec<u32>,
}

impl Node {
    pub fn new(setup: &Setup, number: u16) -> Node {
        let edge = usize::from(setup.topology.edge_nodes());
        let radix = usize::from(setup.topology.radix());
        let is_mesh = setup.topology.is_mesh();
        let config = Config {
            nodes: edge,
            links: radix,
            policy: if is_mesh { setup.policy } else { Policy::Vlb },
            order: setup.order,
            has_flowlets: setup.order == Order::Flowlet,
            line_rate: setup.line_rate * u64::from(setup.ports),
            link_rate: setup.link_rate,
            fill: setup.fill,
            slack: setup.slack,
            overdraft: setup.overdraft,
            flowlets: 1 << 14,
            gap: setup.gap,
        };
        let is_edge = usize::from(number) < edge;
        // Across several stages each path of the stream is many: a second one that is never heard of leaves only the
        // deadline.
        let paths = if is_mesh { radix } else { 2 };
        let streams = if is_edge { edge } else { 0 };
        Node {
            chooser: PathChooser::new(config),
            numbers: vec![Numbering::new(radix); streams],
            streams: (0..streams).map(|_| Resequencer::new(paths, setup.window, setup.deadline, 0)).collect(),
            news: None,
            life: 0,
            out: Vec::new(),
        }
    }

    pub fn held(&self) -> usize {
        self.streams.iter().map(Resequencer::held).sum()
    }

    /// The link for a packet that passes on its first way.
    pub fn transit(&mut self, to: u16, len: u32) -> Option<u16> {
        self.chooser.choose(to, len, 0)
    }

    /// Takes in what the cluster believes of its links.
    pub fn learn(&mut self, setup: &Setup, links: &Links, number: u16) {
        for to in 0..setup.topology.edge_nodes() {
            let weights = if setup.topology.is_mesh() && to == number {
                vec![]
            } else {
                small(&links.weights(number, to))
            };
            self.chooser.set_weights(to, &weights);
        }
        (0..setup.topology.radix()).for_each(|link| {
            self.chooser.set_link_rate(link, links.rate(number, link));
        });
    }

    /// Takes in which paths a stream has.
    pub fn learn_stream(&mut self, source: u16, weights: &[u64], out: &mut Vec<u32>) {
        let stream = &mut self.streams[usize::from(source)];
        for (path, &weight) in weights.iter().enumerate() {
            if weight == 0 {
                stream.path_down(path, out);
            } else if !stream.is_path_up(path) {
                stream.path_up(path);
            }
        }
    }
}
