//! What is to be done when a twin or its port has changed. No I/O, no clock.

use super::super::Port;
use control::netlink::Link;

/// A twin and its port, as far as one follows the other.
#[derive(Debug)]
pub struct Pair {
    /// What the twin is called.
    pub name: String,
    /// The number of the twin's interface in the caller's namespace.
    pub twin: u32,
    /// The number of the port's interface in the private namespace.
    pub port: u32,
    /// How the port was last asked to be: what is refused is not asked for again.
    asked: Like,
    /// The group of interfaces that the twin is in.
    pub group: u32,
    /// The longest packet that the port can carry.
    pub max_mtu: u32,
    /// The longest packet that it carries now.
    pub mtu: u32,
    /// The twin or the port is gone.
    is_over: bool,
}

/// What the port takes from its twin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Like {
    up: bool,
    mac: Option<[u8; 6]>,
    mtu: u32,
}

/// Something to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// The port is to be set up or down.
    Up(bool),
    /// The port gets this Ethernet address.
    Mac([u8; 6]),
    /// The port is to carry packets of so many bytes.
    Mtu(u32),
    /// The twin is to have the MTU of the port again, which cannot carry packets of so many bytes.
    Narrow(u32),
    /// The router is to end: a port without its twin must not go on.
    End,
    /// The twin gets or loses its carrier.
    Carrier(bool),
    /// The operator is to know this.
    Say(String),
}

impl Step {
    /// What has happened if it cannot be done.
    pub fn failure(&self) -> &'static str {
        match self {
            Step::Up(true) => "the port cannot be set up",
            Step::Up(false) => "the port cannot be set down",
            Step::Mac(_) => "the port does not take the Ethernet address of its twin",
            Step::Mtu(_) | Step::Narrow(_) => "the twin does not take the MTU of its port",
            Step::Carrier(_) | Step::End | Step::Say(_) => "",
        }
    }
}

impl Pair {
    /// Both as they are when the twin has just been made: the port is up. `max_mtu` is the longest packet that it can carry.
    pub fn new(port: &Port, twin: u32, number: u32, max_mtu: u32) -> Pair {
        let asked = Like { up: true, mac: Some(port.mac), mtu: port.mtu };
        let (name, max_mtu) = (port.name.clone(), max_mtu.max(port.mtu));
        Pair { name, twin, port: number, asked, group: 0, max_mtu, mtu: port.mtu, is_over: false }
    }

    /// The twin is like this now; `None`: it is gone.
    pub fn twin_is(&mut self, twin: Option<Link>) -> Vec<Step> {
        if self.is_over {
            return Vec::new();
        }
        let Some(twin) = twin else {
            self.is_over = true;
            let what = "the twin was removed, or moved to another network namespace; the router ends";
            return vec![Step::Up(false), Step::Say(what.to_owned()), Step::End];
        };
        let mut steps = Vec::new();
        if twin.name != self.name {
            steps.push(Step::Say(format!("until now the twin was called {}", self.name)));
            self.name.clone_from(&twin.name);
        }
        self.group = twin.group;
        let wanted = Like { up: twin.up, mac: twin.mac, mtu: twin.mtu };
        if let Some(mac) = wanted.mac.filter(|_| wanted.mac != self.asked.mac) {
            steps.push(Step::Mac(mac));
        }
        if wanted.mtu != self.asked.mtu {
            steps.push(if wanted.mtu > self.max_mtu {
                Step::Narrow(wanted.mtu)
            } else {
                Step::Mtu(wanted.mtu)
            });
        }
        if wanted.up != self.asked.up {
            steps.push(Step::Up(wanted.up));
        }
        self.asked = wanted;
        steps
    }

    /// The port is there, or is gone.
    pub fn port_is(&mut self, there: bool) -> Vec<Step> {
        if there || std::mem::replace(&mut self.is_over, true) {
            return Vec::new();
        }
        vec![
            Step::Say(
                "the device of the port is gone; a new one is taken when the router starts again".to_owned(),
            ),
            Step::Carrier(false),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair() -> Pair {
        Pair::new(&Port::idle("eth1", [2; 6]), 7, 3, 2000)
    }

    fn twin(up: bool, last: u8) -> Option<Link> {
        Some(Link {
            index: 7,
            name: "eth1".to_owned(),
            up,
            mtu: 1500,
            mac: Some([2, 2, 2, 2, 2, last]),
            ..Link::default()
        })
    }

    #[test]
    fn the_port_does_what_the_twin_does() {
        let mut pair = pair();
        assert_eq!(pair.twin_is(twin(true, 2)), []);
        assert_eq!(pair.twin_is(twin(false, 2)), [Step::Up(false)]);
        // Told twice.
        assert_eq!(pair.twin_is(twin(false, 2)), []);
        assert_eq!(pair.twin_is(twin(true, 9)), [Step::Mac([2, 2, 2, 2, 2, 9]), Step::Up(true)]);
    }

    #[test]
    fn a_twin_that_goes_closes_its_port_once() {
        let mut pair = pair();
        let steps = pair.twin_is(None);
        assert!(matches!(steps[..], [Step::Up(false), Step::Say(_), Step::End]), "{steps:?}");
        assert_eq!(
            (pair.twin_is(None), pair.twin_is(twin(true, 2)), pair.port_is(false)),
            Default::default()
        );
    }

    #[test]
    fn a_port_carries_what_its_twin_does_if_it_can() {
        let mut pair = pair();
        let with = |mtu| twin(true, 2).map(|link| Link { mtu, ..link });
        assert_eq!(pair.twin_is(with(2000)), [Step::Mtu(2000)]);
        assert_eq!(pair.twin_is(with(2001)), [Step::Narrow(2001)]);
        assert_eq!(pair.twin_is(with(2000)), [Step::Mtu(2000)]);
        assert_eq!(pair.twin_is(with(2000)), []);
    }

    #[test]
    fn a_twin_may_be_renamed() {
        let mut pair = pair();
        let renamed = twin(true, 2).map(|link| Link { name: "lan0".to_owned(), ..link });
        assert_eq!(
            pair.twin_is(renamed.clone()),
            [Step::Say("until now the twin was called eth1".to_owned())]
        );
        assert_eq!((pair.twin_is(renamed), &pair.name[..]), (vec![], "lan0"));
    }

    #[test]
    fn a_device_that_goes_is_told_of() {
        let mut pair = pair();
        assert_eq!(pair.port_is(true), []);
        assert!(matches!(pair.port_is(false)[..], [Step::Say(_), Step::Carrier(false)]));
        assert_eq!(pair.port_is(false), []);
    }
}
