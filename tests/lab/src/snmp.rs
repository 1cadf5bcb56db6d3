//! What Linux counts of a host: `/proc/net/snmp` and `/proc/net/netstat`.

use crate::netns::Namespace;
use crate::{Context, Error, Result};

/// The counter of this name of this protocol, say `Icmp` and `InRedirects`, or `TcpExt` and `TCPFastRetrans`.
///
/// # Errors
/// If the files cannot be read, or have no such counter.
pub fn counter(host: &Namespace, protocol: &str, name: &str) -> Result<u64> {
    let text = host.run("cat", &["/proc/net/snmp", "/proc/net/netstat"])?;
    let value = find(&text, protocol, name)
        .ok_or_else(|| Error::new(format!("Linux has no counter {name} of {protocol}")))?;
    value.parse().cannot(|| format!("read {name} of {protocol}: {value}"))
}

/// Datagrams that reached a host and were lost there, as nobody had emptied the socket that they were for.
///
/// # Errors
/// As [`counter`].
pub fn overflowed(host: &Namespace) -> Result<u64> {
    counter(host, "Udp", "RcvbufErrors")
}

/// Each protocol has a line of names and a line of values, both with its name in front.
fn find<'a>(text: &'a str, protocol: &str, name: &str) -> Option<&'a str> {
    let mut lines = text.lines().filter_map(|line| line.strip_prefix(protocol)?.strip_prefix(": "));
    let (names, values) = (lines.next()?, lines.next()?);
    let (_, value) = names.split(' ').zip(values.split(' ')).find(|(found, _)| *found == name)?;
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::find;

    #[test]
    fn a_counter_is_found_by_protocol_and_name() {
        let text = "Icmp: InMsgs InErrors\nIcmp: 7 1\nUdp: InDatagrams InErrors\nUdp: 12 3\nUdpLite: InErrors\nUdpLite: 5\n";
        assert_eq!(find(text, "Udp", "InErrors"), Some("3"));
        assert_eq!(find(text, "Icmp", "InErrors"), Some("1"));
        assert_eq!(find(text, "UdpLite", "InErrors"), Some("5"));
        assert_eq!(find(text, "Udp", "InMsgs"), None);
        assert_eq!(find(text, "Tcp", "InErrors"), None);
    }
}
