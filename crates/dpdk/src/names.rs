//! How users write devices.

use crate::driver::Driver;
use io::OpenError;
use io::linux::{self, Interface};

/// What a name stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// A DPDK port number.
    Number(u16),
    /// A device on the PCI bus, by full address.
    Pci(String),
    /// A device that a driver makes: its name, and everything up to the end as the user wrote it.
    Virtual { name: String, spec: String },
    /// A Linux interface, and the driver if one is named.
    Interface(Option<Driver>, Interface),
    /// A tap to be made, by the interface's name.
    Tap(String),
    /// Nothing that can be told from the name alone: a device that DPDK has already, or a mistake.
    Unknown(String),
}

/// Reads a name.
///
/// # Errors
/// If it asks for a Linux interface that does not exist, or is no name at all.
pub(crate) fn parse(text: &str) -> Result<Target, OpenError> {
    if let Some((driver, name)) = text.split_once(':') {
        match driver {
            "af_packet" => return explicit(Driver::AfPacket, name),
            "af_xdp" => return explicit(Driver::AfXdp, name),
            "tap" => return tap(name),
            _ => {}
        }
    }
    if let Ok(number) = text.parse::<u16>() {
        return Ok(Target::Number(number));
    }
    if let Some(address) = pci_address(text) {
        return Ok(Target::Pci(address));
    }
    if let Some((name, _)) = text.split_once(',') {
        return Ok(Target::Virtual { name: name.to_owned(), spec: text.to_owned() });
    }
    if let Some(interface) = Interface::find(text) {
        return Ok(Target::Interface(None, interface));
    }
    if text.starts_with("net_") && text.len() > "net_".len() {
        return Ok(Target::Virtual { name: text.to_owned(), spec: text.to_owned() });
    }
    Ok(Target::Unknown(text.to_owned()))
}

/// What is wrong with a name, whatever devices there are; starts nothing.
pub fn refuse(name: &str) -> Option<OpenError> {
    name.strip_prefix("tap:").and_then(|interface| tap(interface).err())
}

fn explicit(driver: Driver, name: &str) -> Result<Target, OpenError> {
    match Interface::find(name) {
        Some(interface) => Ok(Target::Interface(Some(driver), interface)),
        None => Err(unknown(name, &[])),
    }
}

fn tap(name: &str) -> Result<Target, OpenError> {
    if !linux::is_valid_name(name) {
        return Err(OpenError::new(
            format!("'{name}' cannot be the name of a Linux interface"),
            "1 to 15 letters, digits, dots, dashes or underscores",
        ));
    }
    Ok(Target::Tap(name.to_owned()))
}

/// The full form DDDD:BB:DD.F of a PCI address, which may lack the domain.
pub(crate) fn pci_address(text: &str) -> Option<String> {
    let hex = |s: &str, digits: usize| s.len() == digits && s.bytes().all(|b| b.is_ascii_hexdigit());
    let (slot, function) = text.split_once('.')?;
    let parts: Vec<&str> = slot.split(':').collect();
    let (domain, bus, device) = match parts[..] {
        [bus, device] => ("0000", bus, device),
        [domain, bus, device] => (domain, bus, device),
        _ => return None,
    };
    let good = hex(domain, 4) && hex(bus, 2) && hex(device, 2) && hex(function, 1);
    good.then(|| format!("{domain}:{bus}:{device}.{function}").to_ascii_lowercase())
}

/// The error for a name that nothing answers to; `ports` are the names of DPDK's ports.
pub(crate) fn unknown(name: &str, ports: &[String]) -> OpenError {
    let list = |what: &[String]| if what.is_empty() { "none".to_owned() } else { what.join(", ") };
    OpenError::new(
        format!("there is no device '{name}'"),
        format!(
            "Linux interfaces here: {}; DPDK ports: {}; a virtual device is written like \
             net_tap0,iface=NAME, a PCI device like 0000:3b:00.0",
            list(&linux::interfaces()),
            list(ports)
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn virtual_device(name: &str, spec: &str) -> Target {
        Target::Virtual { name: name.to_owned(), spec: spec.to_owned() }
    }

    #[test]
    fn names_are_told_apart() {
        let is = |text: &str| parse(text).unwrap();
        assert_eq!(is("0"), Target::Number(0));
        assert_eq!(is("3B:00.1"), Target::Pci("0000:3b:00.1".to_owned()));
        assert_eq!(is("0001:3b:00.0"), Target::Pci("0001:3b:00.0".to_owned()));
        assert_eq!(is("net_null0"), virtual_device("net_null0", "net_null0"));
        assert_eq!(is("net_pcap0,rx_pcap=a:b.c"), virtual_device("net_pcap0", "net_pcap0,rx_pcap=a:b.c"));
        assert_eq!(is("tap:rb0"), Target::Tap("rb0".to_owned()));
        assert!(matches!(is("lo"), Target::Interface(None, _)));
        assert!(matches!(is("af_packet:lo"), Target::Interface(Some(Driver::AfPacket), _)));
        assert!(matches!(is("af_xdp:lo"), Target::Interface(Some(Driver::AfXdp), _)));
        assert_eq!(is("etherbunny"), Target::Unknown("etherbunny".to_owned()));
        assert_eq!(is("70000"), Target::Unknown("70000".to_owned()));
    }

    #[test]
    fn a_missing_interface_is_refused() {
        let error = parse("af_packet:etherbunny").unwrap_err();
        assert_eq!(error.message, "there is no device 'etherbunny'");
        assert!(error.help.starts_with("Linux interfaces here: ") && error.help.contains("lo"));
        let error = parse("tap:a/b").unwrap_err();
        assert_eq!(error.message, "'a/b' cannot be the name of a Linux interface");
    }
}
