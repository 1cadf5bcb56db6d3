//! Links of a fly that are not this node's own: what others say of them, and what that changes here.

use super::links::Neighbour;
use super::settings::Settings;
use super::status::Status;
use super::switch::Switch;
use super::table::{Cell, Table};
use cluster::news::{Changes, News, Said};
use graph::{Nanos, Out};

/// What is known of far links, for handlers. Nothing in a full mesh.
#[derive(Debug, Default)]
pub struct FarStatus {
    /// By node.
    said: Vec<Option<Said>>,
    /// Those that are not used.
    down: Vec<(u16, u16, bool)>,
}

impl Switch {
    /// Takes in what a neighbour's hello says of far links. False if something of it is out of range.
    pub(super) fn hear_news(&mut self, node: u16, text: &[u8], now: Nanos, out: &mut Out<'_>) -> bool {
        let Some(news) = &mut self.news else { return true };
        let Ok(Changes { links, lives }) = news.read(node, text, now) else { return false };
        // Taken in with the next tick, together with what else has come by then.
        self.has_news |= links;
        for life in &lives {
            if life.is_another {
                self.begin_anew(life.node);
            }
            self.egress.renew(life.node, life.incarnation);
        }
        if !lives.is_empty() {
            // Numbers that lanes hold are of the life before.
            self.learn(now, out);
        }
        true
    }

    /// This node's link to a neighbour went up or down, which the others are to know.
    pub(super) fn tell_news(&mut self, node: u16, up: bool, now: Nanos) {
        self.news.iter_mut().for_each(|news| news.set_link(node, up, now));
    }

    /// Whether something of this changed since the last tick.
    pub(super) fn look_after_news(&mut self, now: Nanos) -> bool {
        let drains = self.shared.drains();
        let changed = self.news.as_mut().is_some_and(|news| news.set_drains(drains, now) | news.poll(now));
        std::mem::take(&mut self.has_news) || changed
    }

    /// What a hello to a neighbour says of all links; nothing in a full mesh.
    pub(super) fn news_for(&mut self, node: u16, now: Nanos) -> Vec<u8> {
        let mut text = Vec::new();
        self.news.iter_mut().for_each(|news| news.write(node, now, &mut text));
        text
    }

    /// Whether a hello is due, and what it says about hearing the neighbour: news that cannot wait makes one due.
    pub(super) fn is_hello_due(&mut self, place: usize, now: Nanos) -> Option<bool> {
        let Neighbour { node, liveness, .. } = &mut self.neighbours[place];
        let is_fresh = self.news.as_ref().is_some_and(|news| news.is_fresh(*node));
        liveness.hello(now).or_else(|| is_fresh.then(|| liveness.hears(now)))
    }

    /// Shows handlers what is known of far links.
    pub(super) fn far_status(&self, far: &mut FarStatus, now: Nanos) {
        far.said.clear();
        far.down.clear();
        if let Some(news) = &self.news {
            far.said.extend(news.said(now));
            far.down.extend(news.down());
        }
    }
}

/// What a node of a fly knows at first; nothing in a full mesh.
pub fn news(settings: &Settings) -> Option<News> {
    News::new(settings.topology, settings.me, settings.incarnation, settings.hello)
}

impl Status {
    /// What other nodes of a fly were heard to say of their links, and of themselves.
    pub fn news(&self, settings: &Settings) -> Table {
        let row = |(node, said): (u16, &Option<Said>)| {
            let links = settings.topology.neighbours(node).len();
            let (state, incarnation, age, up, drains) = match said {
                None => ("unheard", Cell::Word("-"), Cell::Word("-"), Cell::Word("-"), "-"),
                Some(said) => {
                    let numbers = [said.incarnation.into(), said.age / 1_000_000, said.up.into()];
                    let [incarnation, age, up] = numbers.map(Cell::Number);
                    ("heard", incarnation, age, up, if said.drains { "yes" } else { "no" })
                }
            };
            vec![
                Cell::from(node),
                Cell::Word(state),
                incarnation,
                age,
                Cell::from(links),
                up,
                Cell::Word(drains),
            ]
        };
        let others = (0..).zip(&self.far.said).filter(|(node, _)| *node != settings.me);
        Table {
            name: "cluster_news",
            columns: &["from_node", "state", "incarnation", "age_ms", "links", "links_up", "drains"],
            rows: others.map(row).collect(),
        }
    }

    /// Links of other nodes of a fly by which nothing is sent.
    pub fn far_links(&self) -> Table {
        let row = |&(from, to, settles): &(u16, u16, bool)| {
            vec![from.into(), to.into(), Cell::Word(if settles { "settles" } else { "down" })]
        };
        Table {
            name: "cluster_far_links",
            columns: &["from_node", "to_node", "state"],
            rows: self.far.down.iter().map(row).collect(),
        }
    }
}
