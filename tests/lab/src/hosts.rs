//! Hosts behind the ports of a router.

use crate::Result;
use crate::netns::Namespace;
use crate::packets::Mac;
use crate::veth::{self, End};

/// A host behind each of these ports of `inside`, which are made. Host n is 10.n.0.2 and 2001:db8:n::2 on its `eth0`; its
/// way to everywhere is .1 of the same networks, addresses that nobody has yet.
pub fn behind(inside: &Namespace, ports: &[String]) -> Result<Vec<Namespace>> {
    let hosts: Vec<Namespace> =
        (1..=ports.len()).map(|n| Namespace::unique(&format!("h{n}"))).collect::<Result<_>>()?;
    let cables: Vec<_> = (hosts.iter().zip(ports).zip(1..))
        .map(|((host, port), n)| (end(host, "eth0", 0x10 + n), end(inside, port, n)))
        .collect();
    veth::connect_like_nics(&cables)?;
    for (host, n) in hosts.iter().zip(1..) {
        veth::finish_frames(host, "eth0")?;
        host.set("net/ipv6/conf/all/disable_ipv6", "0")?;
        host.ip(&format!(
            "address add 10.{n}.0.2/24 dev eth0\nroute add default via 10.{n}.0.1\n\
             address add 2001:db8:{n}::2/64 dev eth0 nodad\nroute add default via 2001:db8:{n}::1\n"
        ))?;
    }
    inside.set("net/ipv6/conf/all/disable_ipv6", "0")?;
    inside.set("net/ipv6/conf/default/disable_ipv6", "0")?;
    inside.set("net/ipv4/icmp_ratelimit", "0")?;
    Ok(hosts)
}

/// An end with the hardware address 02:00:00:00:00:`number`, of which no two are the same in a stage.
pub(crate) fn end<'a>(namespace: &'a Namespace, interface: &'a str, number: u8) -> End<'a> {
    End { namespace, interface, mac: Mac([2, 0, 0, 0, 0, number]), mtu: 1500 }
}
