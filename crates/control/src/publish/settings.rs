//! What Linux has set for interfaces, as far as it decides about forwarded packets.

use super::policy::Policy;
use crate::kernel::Model;
use crate::netlink::{ALL, Link, Netconf};
use fib::{Family, InterfaceSettings, SourceCheck};
use std::collections::HashMap;

/// `MACVLAN_MODE_PRIVATE`, `_VEPA` and `_BRIDGE`: frames to the macvlan's address are its own, others are not.
const SHARING: [u32; 3] = [1, 2, 4];

/// Interfaces that take a part, or all, of the frames that come in by another one, by that one's number.
pub struct Above<'a>(HashMap<u32, Vec<&'a Link>>);

impl<'a> Above<'a> {
    /// Of all interfaces.
    pub fn of(kernel: &'a Model) -> Above<'a> {
        let mut above: HashMap<u32, Vec<&Link>> = HashMap::new();
        let takes = |link: &&Link| link.kind == "macvlan" || link.kind.starts_with("ipvlan");
        for link in kernel.links.iter().map(|(_, link)| link).filter(takes) {
            above.entry(link.below).or_default().push(link);
        }
        Above(above)
    }

    fn on(&self, link: &Link) -> &[&'a Link] {
        self.0.get(&link.index).map_or(&[], Vec::as_slice)
    }
}

/// The least MTU with which an interface has IPv6 (RFC 8200 §5).
const LEAST_MTU6: u32 = 1280;

/// How packets that come in by an interface are treated.
pub fn settings(kernel: &Model, policy: &Policy, link: &Link, above: &Above<'_>) -> InterfaceSettings {
    let own = alone(kernel, link);
    let mut all = own.clone();
    let mut macs = Vec::new();
    for other in above.on(link) {
        if !SHARING.contains(&other.macvlan_mode) {
            // It takes frames by other means than their destination.
            (all.linux4, all.linux6) = (true, true);
        } else if other.up && other.master == link.master && alone(kernel, other) == own {
            macs.extend(other.mac);
        }
    }
    macs.sort_unstable();
    macs.dedup();
    macs.truncate(InterfaceSettings::MOST_MACS);
    all.virtual_macs = macs.into();
    all.linux4 |= policy.takes_all(Family::Ipv4, &link.name);
    all.linux6 |= policy.takes_all(Family::Ipv6, &link.name);
    all
}

/// The same without what is on top of the interface.
fn alone(kernel: &Model, link: &Link) -> InterfaceSettings {
    let conf = |family, index: i32| kernel.netconf.get((family, index));
    let index = i32::try_from(link.index).unwrap_or(0);
    let (conf4, conf6) = (conf(Family::Ipv4, index), conf(Family::Ipv6, index));
    let polled = kernel.polled.get(link.index);
    // A bridge or a bond takes all that comes; a VRF does not.
    let is_taken =
        link.master != 0 && kernel.links.get(link.master).is_none_or(|master| master.table.is_none());
    let forwards = |conf: Option<&Netconf>| conf.and_then(|conf| conf.forwarding).unwrap_or(true);
    let is_forced = conf6.and_then(|conf| conf.force_forwarding).unwrap_or(false);
    let (forwards4, forwards6) = (forwards(conf4), forwards(conf(Family::Ipv6, ALL)) || is_forced);
    let filter = |conf: Option<&Netconf>| conf.and_then(|conf| conf.rp_filter).unwrap_or(0);
    let sources = match filter(conf4).max(filter(conf(Family::Ipv4, ALL))) {
        0 => SourceCheck::Off,
        1 => SourceCheck::Strict,
        _ => SourceCheck::Loose,
    };
    InterfaceSettings {
        linux4: is_taken || !forwards4 || polled.is_some_and(|polled| polled.accept_local),
        linux6: is_taken
            || !forwards6
            || link.mtu < LEAST_MTU6
            || polled.is_some_and(|polled| polled.disable_ipv6),
        sources,
        ..InterfaceSettings::default()
    }
}

/// The longest IPv6 packet that leaves by an interface.
pub fn mtu6(kernel: &Model, link: &Link) -> u32 {
    let own = kernel.polled.get(link.index).map(|polled| polled.mtu6).filter(|mtu| *mtu != 0);
    own.map_or(link.mtu, |mtu| mtu.min(link.mtu))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netlink::{Action, Message, PolledSettings};

    fn link(index: u32, below: u32, change: impl Fn(&mut Link)) -> Link {
        let mac = Some([2, 0, 0, 0, 0, index as u8]);
        let mut link = Link { index, below, mac, mtu: 1500, up: true, ..Link::default() };
        change(&mut link);
        link
    }

    fn conf(family: Family, index: i32, forwarding: bool, rp_filter: u32) -> Message {
        let conf = Netconf {
            forwarding: Some(forwarding),
            rp_filter: Some(rp_filter),
            ..Netconf::unknown(family, index)
        };
        Message::Netconf(Action::Add, conf)
    }

    /// Interface 1, alone at first, forwards both families.
    fn model() -> Model {
        let mut model = Model::default();
        let all = [
            Message::Link(Action::Add, link(1, 0, |_| {})),
            conf(Family::Ipv4, ALL, true, 0),
            conf(Family::Ipv4, 1, true, 0),
            conf(Family::Ipv6, ALL, true, 0),
            conf(Family::Ipv6, 1, false, 0),
        ];
        all.into_iter().for_each(|message| model.apply(message, false));
        model
    }

    fn of(model: &Model) -> InterfaceSettings {
        settings(model, &Policy::default(), model.links.get(1).unwrap(), &Above::of(model))
    }

    fn after(change: Message) -> InterfaceSettings {
        let mut model = model();
        model.apply(change, false);
        of(&model)
    }

    #[test]
    fn forwarding_is_of_the_interface_for_ipv4_and_of_all_for_ipv6() {
        assert_eq!(of(&model()), InterfaceSettings::default());
        let families = |settings: InterfaceSettings| (settings.linux4, settings.linux6);
        let narrow = |mtu| after(Message::Link(Action::Add, link(1, 0, |link| link.mtu = mtu)));
        assert_eq!([1279, 1280].map(narrow).map(families), [(false, true), (false, false)]);
        assert_eq!(families(after(conf(Family::Ipv4, 1, false, 0))), (true, false));
        assert_eq!(families(after(conf(Family::Ipv4, ALL, false, 0))), (false, false));
        assert_eq!(families(after(conf(Family::Ipv6, 1, true, 0))), (false, false));
        assert_eq!(families(after(conf(Family::Ipv6, ALL, false, 0))), (false, true));
        let mut forced = model();
        forced.apply(conf(Family::Ipv6, ALL, false, 0), false);
        let conf = Netconf { force_forwarding: Some(true), ..Netconf::unknown(Family::Ipv6, 1) };
        forced.apply(Message::Netconf(Action::Add, conf), false);
        assert_eq!(families(of(&forced)), (false, false));
        let mut disabled = model();
        disabled.set_polled(PolledSettings { index: 1, disable_ipv6: true, mtu6: 1280, accept_local: true });
        assert_eq!(families(of(&disabled)), (true, true));
        assert_eq!(mtu6(&disabled, disabled.links.get(1).unwrap()), 1280);
    }

    #[test]
    fn the_larger_rp_filter_counts() {
        for (own, all, check) in [
            (0, 0, SourceCheck::Off),
            (1, 0, SourceCheck::Strict),
            (0, 1, SourceCheck::Strict),
            (1, 2, SourceCheck::Loose),
            (2, 1, SourceCheck::Loose),
        ] {
            let mut model = model();
            model.apply(conf(Family::Ipv4, 1, true, own), false);
            model.apply(conf(Family::Ipv4, ALL, true, all), false);
            assert_eq!(of(&model).sources, check, "{own} {all}");
        }
    }

    #[test]
    fn what_another_interface_takes_is_linux_s() {
        let in_master = |table| {
            let mut model = model();
            model.apply(Message::Link(Action::Add, link(1, 0, |link| link.master = 7)), false);
            model.apply(Message::Link(Action::Add, link(7, 0, |link| link.table = table)), false);
            of(&model)
        };
        assert_eq!((in_master(None).linux4, in_master(Some(10)).linux4), (true, false));
        let upper = |kind: &str, mode, change: fn(&mut Link)| {
            let upper = link(9, 1, |link| {
                (link.kind, link.macvlan_mode) = (kind.to_owned(), mode);
                change(link);
            });
            let mut model = model();
            model.apply(Message::Link(Action::Add, upper), false);
            model.apply(conf(Family::Ipv4, 9, true, 0), false);
            of(&model)
        };
        let mac = [2, 0, 0, 0, 0, 9];
        for mode in SHARING {
            let settings = upper("macvlan", mode, |_| {});
            assert_eq!((settings.linux4, &settings.virtual_macs[..]), (false, &[mac][..]));
        }
        assert!(upper("macvlan", 4, |link| link.up = false).virtual_macs.is_empty());
        assert!(upper("macvlan", 4, |link| link.master = 3).virtual_macs.is_empty());
        assert!(upper("macvlan", 8, |_| {}).linux4 && upper("ipvlan", 0, |_| {}).linux6);
        assert_eq!(upper("vlan", 0, |_| {}), InterfaceSettings::default());
    }
}
