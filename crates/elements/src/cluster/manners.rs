//! How packets of each class go: which path, with a number or without.
//!
//! Packets of one class go at a time: a batch is parted by class before anything else is asked, so what sends a batch knows of no
//! classes. Each has lanes of its own; those of one class have room at a time, as it is room on the same links, and
//! numbers are of the same streams.

use super::adjacencies::Adjacencies;
use super::outlet::OVERHEAD;
use super::settings::Settings;
use super::status::Tally;
use super::switch::Switch;
use super::ways::{Ties, Ways};
use cluster::class;
use cluster::header::CLASSES;
use cluster::path::{Order, Policy};
use graph::{Cx, Out};
use packet::Batch;

/// How the packets of a class go.
#[derive(Debug, Clone, Copy)]
pub struct Manner {
    pub order: Order,
    pub ties: Ties,
    /// What headers say of it.
    pub class: u8,
    /// They are numbered.
    pub is_numbered: bool,
    /// The choice of paths asks which flow a packet belongs to.
    pub needs_flow: bool,
}

impl Manner {
    /// That of packets that are kept in this order.
    pub fn new(settings: &Settings, order: Order) -> Manner {
        let needs_flow =
            matches!(order, Order::Flowlet | Order::SinglePath) || settings.policy == Policy::FlowHash;
        Manner {
            order,
            ties: Ties::new(settings.policy, order),
            class: class::of(order, settings.order),
            is_numbered: order == Order::Strict,
            needs_flow,
        }
    }
}

/// By what headers say of the class: whether packets for lines of this node are put in order.
pub fn in_order(settings: &Settings) -> [bool; CLASSES as usize] {
    let is_strict = settings.has(Order::Strict);
    // There are fewer than 2^8.
    std::array::from_fn(|class| is_strict && class::is_numbered(class as u8, settings.order))
}

/// All classes of a switch, the usual one first; none if that is the only one.
#[derive(Debug)]
pub struct Manners {
    /// By number of the class; what stands at the present one's place means nothing, those are in [`Switch::ways`].
    ways: Box<[Ways]>,
    present: usize,
    /// What came in.
    pub came: Box<[Tally]>,
    /// A batch for each class. Empty between calls.
    bins: Vec<Batch>,
    /// The class of each packet of a batch. Of no meaning between calls.
    of_packet: Vec<u8>,
    /// All nodes that are heard know what classes mean.
    pub is_agreed: bool,
}

impl Manners {
    /// As the settings say.
    pub fn new(settings: &Settings) -> Manners {
        let classes = settings.classes.list();
        let orders = [settings.order].into_iter().chain(classes.iter().map(|class| class.order));
        let orders = orders.filter(|_| !classes.is_empty());
        let ways: Box<[Ways]> = orders.map(|order| Ways::new(settings, order)).collect();
        Manners {
            present: 0,
            came: vec![Tally::default(); ways.len()].into(),
            bins: ways.iter().map(|_| Batch::empty()).collect(),
            of_packet: if classes.is_empty() { Vec::new() } else { vec![0; Batch::MAX] },
            is_agreed: true,
            ways,
        }
    }
}

impl Switch {
    /// Frames that were made for their next hops.
    pub(super) fn ingress(&mut self, batch: Batch, all: Adjacencies<'_>, cx: &Cx<'_>, out: &mut Out<'_>) {
        match self.manners.ways.is_empty() {
            true => self.ingress_alike(batch, all, cx, out),
            false => self.ingress_by_class(batch, all, cx, out),
        }
    }

    #[inline(never)]
    fn ingress_by_class(&mut self, batch: Batch, all: Adjacencies<'_>, cx: &Cx<'_>, out: &mut Out<'_>) {
        let Manners { of_packet, bins, is_agreed, .. } = &mut self.manners;
        let (classes, mut places) = (&self.settings.classes, of_packet.iter_mut());
        let (mut every, mut any) = (u8::MAX, 0);
        if *is_agreed {
            batch.heads(|head, _| {
                let class = head.map_or(0, |head| classes.of(head));
                places.next().into_iter().for_each(|place| *place = class);
                (every, any) = (every & class, any | class);
            });
        } else {
            every = 0;
        }
        if every == any {
            bins[usize::from(any)] = batch;
        } else if !batch.is_empty() {
            batch.deal(of_packet, bins, u16::from);
        }
        for class in 0..self.manners.bins.len() {
            let batch = std::mem::take(&mut self.manners.bins[class]);
            if !batch.is_empty() {
                self.count_class(class, &batch);
                self.turn_to(class);
                self.ingress_alike(batch, all, cx, out);
            }
        }
    }

    /// Counts packets that came in.
    fn count_class(&mut self, class: usize, batch: &Batch) {
        let (packets, mut bytes) = (batch.len() as u32, 0);
        // A batch has fewer than 2^32.
        batch.heads::<0>(|_, length| bytes += length as u32);
        self.manners.came[class].add_many(packets, bytes + packets * OVERHEAD);
    }

    /// From now on packets go as those of this class.
    fn turn_to(&mut self, class: usize) {
        let before = std::mem::replace(&mut self.manners.present, class);
        if before != class {
            self.close_lanes();
            let ways = &mut self.manners.ways;
            std::mem::swap(&mut self.ways, &mut ways[before]);
            std::mem::swap(&mut self.ways, &mut ways[class]);
        }
    }

    /// Whoever does not know what classes mean would take packets without numbers for ones with numbers.
    pub(super) fn agree_on_classes(&mut self) {
        let mut members = self.neighbours.iter().filter(|neighbour| neighbour.is_member);
        self.manners.is_agreed = members.all(|neighbour| neighbour.knows_classes);
    }
}
