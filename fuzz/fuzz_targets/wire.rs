//! Header formats: every view over any bytes, every field of it, and what rewrites headers in place.
#![no_main]

use libfuzzer_sys::fuzz_target;
use packet::wire::{arp, checksum, ethernet, ipv4, tcp, udp};

fuzz_target!(|bytes: &[u8]| {
    if let Some(frame) = ethernet::Header::parse(bytes) {
        assert_eq!(frame.bytes(), bytes[..ethernet::HEADER_LEN]);
    }
    let _ = (arp::Arp::parse(bytes), tcp::Header::parse(bytes));
    if let Some(datagram) = udp::Header::parse(bytes) {
        assert_eq!(datagram.bytes(), bytes[..udp::HEADER_LEN]);
    }
    if let Some(ip) = ipv4::Ipv4::new(bytes) {
        let _ = (ip.fragment_offset(), ip.is_first_fragment(), ip.checksum_is_valid());
        // Options lie within the header, one behind the other.
        let mut end = ipv4::MIN_HEADER_LEN;
        for item in ipv4::options(&ip) {
            if let ipv4::OptionItem::Option(option) = item {
                assert!(option.offset >= end);
                end = option.offset + option.bytes.len();
                assert!(end <= ip.header_len());
            }
        }
    }
    if let Some(ip) = ipv4::Ipv4::check(bytes) {
        assert!(ip.header_len() + ip.payload().len() == usize::from(ip.total_len()));
        let mut copy = bytes.to_vec();
        assert!(ipv4::set_checksum(&mut copy));
        assert!(ipv4::Ipv4::new(&copy).is_some_and(|ip| ip.checksum_is_valid()));
        if ip.ttl() > 0 {
            assert!(ipv4::decrement_ttl(&mut copy));
            assert!(ipv4::Ipv4::new(&copy).is_some_and(|ip| ip.checksum_is_valid()));
        }
    }
    assert_eq!(checksum::is_valid(bytes), checksum::checksum(bytes) == 0);
});
