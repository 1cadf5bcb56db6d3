//! Cables between namespaces.

use crate::Result;
use crate::netns::{self, Namespace};
use crate::packets::Mac;

/// One end of a cable.
#[derive(Clone, Copy, Debug)]
pub struct End<'a> {
    /// Where it is.
    pub namespace: &'a Namespace,
    /// What it is called there.
    pub interface: &'a str,
    /// Its hardware address.
    pub mac: Mac,
    /// Its MTU in octets.
    pub mtu: u16,
}

/// Lays a cable (a veth pair) between each pair of ends and sets both up, all in one go.
pub fn connect(cables: &[(End, End)]) -> Result<()> {
    let mut lines = String::new();
    for (a, b) in cables {
        lines.push_str(&format!(
            "link add {} type veth peer {}\n",
            described(a, "dev"),
            described(b, "name")
        ));
    }
    netns::ip(&lines)?;
    for (a, b) in cables {
        for end in [a, b] {
            end.namespace.ip(&format!("link set {} up\n", end.interface))?;
        }
    }
    Ok(())
}

fn described(end: &End, keyword: &str) -> String {
    let End { namespace, interface, mac, mtu } = end;
    format!("{keyword} {interface} netns {} address {mac} mtu {mtu}", namespace.name())
}

/// Makes the kernel finish checksums and segments before a frame leaves by `interface`.
///
/// A veth hands over frames with unfinished checksums and up to 64 KB in one piece, since it never meets a real
/// wire. A router in user space would pass them on as they are, and TCP behind it would discard them. Every end
/// at which a Linux stack sends needs this; ping works without, which makes it easy to forget.
pub fn finish_frames(namespace: &Namespace, interface: &str) -> Result<()> {
    namespace.run("ethtool", &["-K", interface, "tx", "off", "gro", "off"]).map(drop)
}
