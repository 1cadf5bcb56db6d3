//! Finding the IP header in what a device or file delivers (`FORCE_IP`).

use io::pcap::LinkType;
use packet::Packet;
use packet::wire::{be16, be32, ethernet};

/// EtherType of an 802.1ad tag.
const SERVICE_TAG: u16 = 0x88a8;

/// Marks the IP header and what is behind it; the link-layer header stays. False, and nothing changed, if there is none.
pub fn mark_ip(packet: &mut Packet, link: LinkType) -> bool {
    let Some(offset) = ip_offset(packet.data(), link) else { return false };
    packet.set_network_offset(offset);
    let first = packet.data().get(offset).copied().unwrap_or(0);
    if first >> 4 == 4 {
        packet.set_transport_offset(offset + usize::from(first & 15) * 4);
        let destination = be32(packet.data(), offset + 16).unwrap_or(0);
        packet.set_dst_ip(destination);
    } else {
        packet.set_transport_offset(offset + 40);
    }
    true
}

/// Where an IPv4 or IPv6 header begins, if its first byte and its shortest length are there.
fn ip_offset(data: &[u8], link: LinkType) -> Option<usize> {
    let offset = match link {
        LinkType::RawIp => 0,
        LinkType::Ethernet => {
            let mut at = 12;
            while matches!(be16(data, at), Some(ethernet::VLAN | SERVICE_TAG)) {
                at += 4;
            }
            match be16(data, at) {
                Some(ethernet::IPV4 | ethernet::IPV6) => at + 2,
                _ => return None,
            }
        }
        LinkType::Other(_) => return None,
    };
    let header = data.get(offset..)?;
    let version = header.first()? >> 4;
    let sound = (version == 4 && header.len() >= 20) || (version == 6 && header.len() >= 40);
    sound.then_some(offset)
}

#[cfg(test)]
mod tests {
    use super::*;
    use packet::Pool;

    #[test]
    fn finds_ip_behind_ethernet_and_tags() {
        let mut frame = vec![0; 12];
        frame.extend([0x81, 0, 0, 5, 8, 0]);
        frame.extend([0x45, 0, 0, 20, 0, 0, 0, 0, 1, 17, 0, 0, 1, 1, 1, 1, 10, 0, 0, 9]);
        assert_eq!(ip_offset(&frame, LinkType::Ethernet), Some(18));
        assert_eq!(ip_offset(&frame[..37], LinkType::Ethernet), None, "the header is not whole");
        assert_eq!(ip_offset(&frame[18..], LinkType::RawIp), Some(0));
        assert_eq!(ip_offset(&frame[18..], LinkType::Other(9)), None);
        let pool = Pool::heap(4, 2048);
        let mut packet = pool.packet(&frame).unwrap();
        assert!(mark_ip(&mut packet, LinkType::Ethernet));
        assert_eq!(
            (packet.len(), packet.network_offset(), packet.transport_offset()),
            (38, Some(18), Some(38))
        );
        assert_eq!(packet.dst_ip(), 0x0a00_0009);
        packet.free();
    }
}
