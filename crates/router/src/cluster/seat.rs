//! A node's place on this machine: its namespace, the interfaces that it took, and its process.

use super::config::Cluster;
use super::member::Member;
use super::places::Place;
use super::text::link_interface;
use crate::linux::{Namespaces, Port, Twins};
use control::link::{change, connect, link};
use control::netlink::make::VethEnd;
use control::netlink::request::LinkChange;
use std::io;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::Arc;

/// See the module. It stays when its node leaves the cluster: the others still have the links to it, and a node that comes
/// in its place gets them.
pub struct Seat {
    /// The number of the node.
    pub node: usize,
    /// Its name.
    pub name: String,
    /// Its interfaces, as they were found; none while there is no such node.
    pub place: Option<Place>,
    /// Its namespace.
    pub namespaces: Arc<Namespaces>,
    /// Its process.
    pub member: Member,
    taken: Vec<Twins<Arc<Namespaces>>>,
    /// The other ends of the links that were laid for it.
    laid: Vec<usize>,
}

impl Seat {
    /// Takes the interfaces of a node.
    ///
    /// # Errors
    /// What to tell the user; what was taken is given back.
    pub fn new(directory: &Path, cluster: &Cluster, place: Place) -> Result<Seat, String> {
        let name = cluster.name_of(place.node).to_owned();
        let namespaces = Namespaces::new(&place.taken());
        let namespaces = Arc::new(namespaces.map_err(|e| format!("cannot make a network namespace: {e}"))?);
        let taken = vec![Twins::take(namespaces.clone(), &place.taken())?];
        let member = Member::new(directory, &cluster.name, &name).map_err(|e| format!("node {name}: {e}"))?;
        Ok(Seat { node: place.node, name, place: Some(place), namespaces, member, taken, laid: Vec::new() })
    }

    /// Another node has come to the place of one that is gone.
    ///
    /// # Errors
    /// What to tell the user; what was taken is given back.
    pub fn occupy(&mut self, place: Place) -> Result<(), String> {
        self.take(&place.taken())?;
        self.place = Some(place);
        Ok(())
    }

    /// Takes further interfaces.
    ///
    /// # Errors
    /// What to tell the user; what was taken is given back.
    pub fn take(&mut self, ports: &[Port]) -> Result<(), String> {
        self.taken.push(Twins::take(self.namespaces.clone(), ports)?);
        self.namespaces.keep(ports).map_err(|e| format!("node {}: {e}", self.name))
    }

    /// The node is gone: its interfaces go back to Linux.
    pub fn leave(&mut self) {
        self.taken.clear();
        self.place = None;
    }

    /// Where others find the namespace.
    pub fn namespace_file(&self) -> PathBuf {
        PathBuf::from(format!("/proc/{}/fd/{}", process::id(), self.namespaces.private()))
    }

    /// Does something in the private namespace.
    fn within<T>(&self, work: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        self.namespaces.enter_private()?;
        let done = work();
        self.namespaces.enter_caller()?;
        done
    }

    /// The names of all interfaces of the node.
    fn devices(&self, cluster: &Cluster) -> Vec<String> {
        self.place.as_ref().map_or_else(Vec::new, |place| place.devices(cluster))
    }

    /// Sets all its interfaces up.
    fn set_up(&self, cluster: &Cluster) -> io::Result<()> {
        self.within(|| {
            for name in self.devices(cluster) {
                change(link(&name)?.index, &LinkChange { up: Some(true), ..LinkChange::default() })?;
            }
            Ok(())
        })
    }

    /// Takes away the XDP programs that a killed driver leaves, with which the next one gets no XDP socket.
    ///
    /// # Errors
    /// Those of the system.
    pub fn clean(&self, cluster: &Cluster) -> io::Result<()> {
        self.within(|| {
            for name in self.devices(cluster) {
                let found = link(&name)?;
                if found.xdp {
                    change(found.index, &LinkChange { no_xdp: true, ..LinkChange::default() })?;
                }
            }
            Ok(())
        })
    }
}

/// Lays the links that are not there yet between these nodes and for which the file names no interfaces, and sets all up.
///
/// # Errors
/// Those of the system.
pub fn cables(cluster: &Cluster, seats: &mut [Seat]) -> io::Result<()> {
    for i in 0..seats.len() {
        let (before, rest) = seats.split_at_mut(i);
        let Some(seat) = rest.first_mut().filter(|seat| seat.place.is_some()) else { continue };
        for peer in before.iter().filter(|peer| peer.place.is_some()) {
            let (from, to) = (seat.node, peer.node);
            let is_named =
                cluster.nodes.get(from).and_then(|node| node.links.get(to)).is_some_and(Option::is_some);
            if is_named || seat.laid.contains(&to) || !cluster.are_joined(from, to) {
                continue;
            }
            let names = [link_interface(cluster, from, to), link_interface(cluster, to, from)];
            // Those that are no interfaces are there when both nodes are.
            let [Some(one), Some(two)] = names else { continue };
            let end = VethEnd { name: &one, namespace: seat.namespaces.private() };
            let other = VethEnd { name: &two, namespace: peer.namespaces.private() };
            connect([&end, &other], cluster.laid_mtu())?;
            seat.laid.push(to);
        }
    }
    seats.iter().filter(|seat| seat.place.is_some()).try_for_each(|seat| seat.set_up(cluster))
}
