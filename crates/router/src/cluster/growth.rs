//! Nodes that come and go while the others run: `cluster reload`.
//!
//! Nothing is done before it is known that it can be: the file is read as a whole, what cannot change is refused, and
//! interfaces are looked for. Nodes go before others come, so that one can take the other's place.
//!
//! ```text
//!   goes:   drains ─▶ control node takes its twins back ─▶ the others forget it ─▶ its process ends ─▶ its interfaces go back
//!   comes:  interfaces, links ─▶ the others attach theirs ─▶ its process starts ─▶ hellos: it gets its share
//! ```

use super::config::{Changes, Cluster};
use super::node::Twin;
use super::orders::{Order, What};
use super::places::{Place, places, twins};
use super::seat::{Seat, cables};
use super::supervisor::{END, LOOK, START, Supervisor, links};
use super::tables::others;
use super::text::{SWITCH, link_device};
use crate::api::{client::Client, socket};
use nix::sys::signal::Signal;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How long a node may take to follow an order.
const ORDER: Duration = Duration::from_secs(30);
/// Hellos after which all nodes know that one drains, and what was under way by it has come.
const HELLOS_TO_DRAIN: u32 = 6;
/// The least time for that.
const LEAST_DRAIN: Duration = Duration::from_millis(100);

impl Supervisor {
    /// Takes the file again; returns what changed in the cluster, or would.
    ///
    /// # Errors
    /// What to tell the user. If something could not be done half-way, it says what was left undone.
    pub fn reload(&mut self, only_check: bool) -> Result<String, String> {
        let file = self.file.display().to_string();
        let new = Cluster::load(&self.file)
            .map_err(|_| format!("{file} cannot be used; everything stays as it is"))?;
        let new = self.etcd.apply(new)?;
        let changes = Changes::between(&self.cluster, &new);
        let mut fixed = changes.fixed.clone();
        if self.only.is_some_and(|me| changes.gone.contains(&me)) {
            fixed.push("the node of this machine".to_owned());
        }
        if !fixed.is_empty() {
            return Err(format!("while the cluster runs these cannot change: {}", fixed.join("; ")));
        }
        let text = changes.text(&self.cluster, &new);
        let coming = self.coming(&new, &changes)?;
        if only_check || changes.is_empty() {
            return Ok(text);
        }
        text.lines().for_each(|line| self.say(line));
        for node in &changes.gone {
            self.remove(*node)?;
        }
        for (node, place) in changes.new.iter().zip(coming) {
            self.admit(&new, *node, place).map_err(|e| format!("node {}: {e}", new.name_of(*node)))?;
        }
        // What is not about nodes that come or go: nothing, or it would have been refused.
        self.cluster = new;
        Ok(text)
    }

    /// The interfaces of nodes that come, by node; none if they are on other machines.
    fn coming(&self, new: &Cluster, changes: &Changes) -> Result<Vec<Option<Place>>, String> {
        if let Some(me) = self.only {
            let mut joined = changes.new.iter().filter(|to| new.are_joined(me, **to));
            joined.try_for_each(|to| new_link(new, me, *to).map(|_| ()))?;
            return Ok(changes.new.iter().map(|_| None).collect());
        }
        for seat in self.seats.iter().filter(|seat| changes.new.contains(&seat.node)) {
            let name = new.name_of(seat.node);
            if seat.name != name {
                return Err(format!(
                    "number {} was that of node {}, whose links are still there: give node {name} another `number`",
                    seat.node, seat.name
                ));
            }
        }
        // What those have that go is not there yet.
        let of_gone = |device: &str| {
            let gone = changes.gone.iter().filter_map(|node| self.cluster.nodes.get(*node));
            gone.flat_map(|node| &node.lines).any(|line| line.device == device)
        };
        let ready = |node: &&usize| {
            let lines = new.nodes.get(**node).map_or(&[][..], |node| &node.lines);
            !lines.iter().any(|line| of_gone(&line.device))
        };
        let look = |node: &usize| if ready(&node) { self.place(new, *node).map(Some) } else { Ok(None) };
        changes.new.iter().map(look).collect()
    }

    /// The interfaces of a node that comes to this machine.
    fn place(&self, new: &Cluster, node: usize) -> Result<Place, String> {
        let found = places(new, &[node])?;
        links(new, &found, None)?;
        if self.twins.is_some() {
            twins(new, &[node], &found)?;
        }
        found.into_iter().next().ok_or_else(|| format!("there is no node {node}"))
    }

    /// Another node comes.
    fn admit(&mut self, new: &Cluster, node: usize, place: Option<Place>) -> Result<(), String> {
        // As far as they are: what comes next is as if it were the only one.
        let mut cluster = self.cluster.clone();
        cluster.take(new, node);
        let place = match place {
            None if self.only.is_none() => Some(self.place(&cluster, node)?),
            place => place,
        };
        let found: Vec<Place> = place.iter().cloned().collect();
        let of_node = match &self.twins {
            Some(_) => twins(&cluster, &[node], &found)?,
            None => Vec::new(),
        };
        let done = self.bring(&cluster, node, place, &of_node);
        self.cluster = cluster;
        self.twins.iter_mut().for_each(|twins| twins.extend(of_node.iter().cloned()));
        if let Err(e) = done {
            // It is as if nobody had wanted it.
            let undone = self.remove(node).err().map_or(String::new(), |e| format!("; then: {e}"));
            return Err(format!("{e}{undone}"));
        }
        Ok(())
    }

    fn bring(
        &mut self,
        cluster: &Cluster,
        node: usize,
        place: Option<Place>,
        twins: &[Twin],
    ) -> Result<(), String> {
        if let Some(place) = place {
            self.offices.admit(cluster, node)?;
            match self.seats.iter_mut().find(|seat| seat.node == node) {
                Some(seat) => seat.occupy(place)?,
                None => self.seats.push(Seat::new(&self.directory, cluster, place)?),
            }
            cables(cluster, &mut self.seats).map_err(|e| format!("cannot lay the internal links: {e}"))?;
        } else if let Some(me) = self.only.filter(|me| cluster.are_joined(*me, node)) {
            let name = new_link(cluster, me, node)?;
            let port = crate::linux::Port::find(&name, 0);
            // It is here already if a node of this number was there before.
            if let (Ok(port), Some(seat)) = (port, self.seats.first_mut()) {
                seat.take(&[port])?;
            }
        }
        for seat in self.running(node) {
            let link = cluster.are_joined(seat, node).then(|| link_device(cluster, seat, node));
            let twins = if cluster.may_control(seat) { twins.to_vec() } else { Vec::new() };
            self.order(cluster, seat, node, What::Join { link, twins })?;
        }
        let Some(i) = self.seats.iter().position(|seat| seat.node == node) else { return Ok(()) };
        // The text of the new node is that of the cluster with it.
        let before = std::mem::replace(&mut self.cluster, cluster.clone());
        let started = self.start(i).and_then(|()| self.wait_until_ready(i));
        self.cluster = before;
        started
    }

    fn wait_until_ready(&mut self, i: usize) -> Result<(), String> {
        let deadline = Instant::now() + START;
        loop {
            self.look();
            let Some(seat) = self.seats.get(i) else { return Ok(()) };
            let member = &seat.member;
            if member.ready {
                return Ok(());
            } else if member.pid().is_none() {
                return Err("it did not start".to_owned());
            } else if Instant::now() >= deadline {
                return Err(format!("it is still not ready: {}", member.state));
            }
            sleep(LOOK);
        }
    }

    /// A node goes.
    fn remove(&mut self, node: usize) -> Result<(), String> {
        let mut cluster = self.cluster.clone();
        cluster.take(&Cluster::default(), node);
        let mut errors = Vec::new();
        self.drain(node);
        let twins: Vec<Twin> =
            self.twins.iter().flatten().filter(|twin| twin.node == node).cloned().collect();
        // First the routes, then the links.
        let mut running = self.running(node);
        let control = self.control_now();
        running.sort_by_key(|other| Some(*other) != control);
        for other in running {
            let twins = if cluster.may_control(other) { twins.clone() } else { Vec::new() };
            errors.extend(self.order(&cluster, other, node, What::Leave { twins }).err());
        }
        self.twins.iter_mut().for_each(|twins| twins.retain(|twin| twin.node != node));
        self.cluster = cluster;
        if let Some(i) = self.seats.iter().position(|seat| seat.node == node) {
            self.end_one(i);
        }
        if errors.is_empty() { Ok(()) } else { Err(errors.join("; ")) }
    }

    /// Lets the others choose a node as relay no more, and waits until nothing goes by it.
    fn drain(&mut self, node: usize) {
        let seat = self.seats.iter().find(|seat| seat.node == node && seat.member.ready);
        let pid = seat.and_then(|seat| seat.member.pid());
        let (Some(pid), Some(directory)) = (pid, socket::directory()) else { return };
        let client = Client::new(directory.join(format!("{pid}.sock")));
        if let Err(e) = client.write(SWITCH, "drain", "true") {
            self.say(&format!("node {} does not drain: {e}", self.cluster.name_of(node)));
        }
        let deadline = Instant::now() + (self.cluster.hello * HELLOS_TO_DRAIN).max(LEAST_DRAIN);
        while Instant::now() < deadline {
            self.look();
            sleep(LOOK);
        }
    }

    /// Ends the process of a node, and gives its interfaces back.
    fn end_one(&mut self, i: usize) {
        let deadline = Instant::now() + END;
        if let Some(seat) = self.seats.get_mut(i) {
            seat.place.take();
            seat.member.signal(Signal::SIGTERM);
        }
        while self.seats.get(i).is_some_and(|seat| seat.member.pid().is_some()) && Instant::now() < deadline {
            self.look();
            sleep(LOOK);
        }
        if let Some(seat) = self.seats.get_mut(i) {
            seat.member.kill();
            seat.leave();
        }
    }

    /// The numbers of the nodes that run here, but one.
    fn running(&self, but: usize) -> Vec<usize> {
        let running = self.seats.iter().filter(|seat| seat.node != but && seat.member.ready);
        running.map(|seat| seat.node).collect()
    }

    /// Has a node do something, and waits until it has. One that ends meanwhile is told when it is started again.
    fn order(&mut self, cluster: &Cluster, to: usize, node: usize, what: What) -> Result<(), String> {
        let Some(i) = self.seats.iter().position(|seat| seat.node == to) else { return Ok(()) };
        self.orders += 1;
        let number = self.orders;
        let (members, rates) = (cluster.members(), cluster.rates_text());
        let order = Order { number, node, what, members, others: others(cluster, to), rates };
        let name = cluster.name_of(to).to_owned();
        let seat = self.seats.get_mut(i);
        if let Some(Err(e)) = seat.map(|seat| seat.member.order(&order)) {
            self.say(&format!("node {name} takes no orders: {e}"));
            return Ok(());
        }
        let deadline = Instant::now() + ORDER;
        loop {
            self.look();
            let Some(member) = self.seats.get(i).map(|seat| &seat.member) else { return Ok(()) };
            if let Some(answer) = member.answer(number) {
                return answer.map_err(|e| format!("node {name}: {e}"));
            } else if member.pid().is_none() {
                return Ok(());
            } else if Instant::now() >= deadline {
                return Err(format!("node {name} does not answer"));
            }
            sleep(LOOK);
        }
    }
}

/// The interface of the only node here that leads to a node elsewhere.
fn new_link(new: &Cluster, me: usize, to: usize) -> Result<String, String> {
    let device = new.nodes.get(me).and_then(|node| node.links.get(to).cloned().flatten());
    device.ok_or_else(|| {
        format!(
            "the file must name the interface of the link from {} to {}",
            new.name_of(me),
            new.name_of(to)
        )
    })
}
