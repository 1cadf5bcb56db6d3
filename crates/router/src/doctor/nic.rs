//! PCI NICs: drivers, and what the paper on 80 Gbit/s with a PC found to matter: Extended Tag, Max_Read_Request_Size,
//! descriptors of 16 bytes, the fields that RSS looks at.

use super::host::Host;
use super::pci::express;
use super::{Row, Verdict};

const DEVICES: &str = "/sys/bus/pci/devices";
/// Where Debian and DPDK's own build put the header that tells how DPDK was built.
const DPDK_CONFIGS: [&str; 3] = [
    "/usr/include/x86_64-linux-gnu/dpdk/rte_config.h",
    "/usr/include/dpdk/rte_config.h",
    "/usr/local/include/rte_config.h",
];

/// A network device.
#[derive(Debug, PartialEq, Eq)]
pub struct Nic {
    address: String,
    /// `vendor:device` in hexadecimal.
    id: String,
    driver: Option<String>,
    /// Its Linux interface.
    interface: Option<String>,
    numa_node: Option<String>,
}

pub fn nics(host: &Host) -> Vec<Nic> {
    let nic = |address: String| {
        let file = |name: &str| format!("{DEVICES}/{address}/{name}");
        let hex = |name: &str| host.read(&file(name)).map(|t| t.trim_start_matches("0x").to_owned());
        // Base class 02: network controller.
        hex("class").filter(|c| c.starts_with("02"))?;
        Some(Nic {
            id: format!("{}:{}", hex("vendor")?, hex("device")?),
            driver: host.link(&file("driver")),
            interface: host.list(&file("net")).into_iter().next(),
            numa_node: host.read(&file("numa_node")).filter(|n| !n.starts_with('-')),
            address,
        })
    };
    host.list(DEVICES).into_iter().filter_map(nic).collect()
}

pub fn rows(host: &Host, nics: &[Nic]) -> Vec<Row> {
    if nics.is_empty() {
        return vec![Row::new(
            "PCI NICs",
            "none; Linux interfaces and virtual devices can be used",
            Verdict::NotApplicable,
        )];
    }
    nics.iter().flat_map(|n| nic_rows(host, n)).collect()
}

fn nic_rows(host: &Host, nic: &Nic) -> Vec<Row> {
    let mut rows = vec![driver_row(nic)];
    rows.extend(express_rows(host, nic));
    rows.extend(descriptor_row(host, nic));
    rows.push(rss_row(host, nic));
    rows
}

fn driver_row(nic: &Nic) -> Row {
    let driver = nic.driver.as_deref().unwrap_or("none");
    let mut found = format!("{}, driver {driver}", nic.id);
    if let Some(interface) = &nic.interface {
        found += &format!(", interface {interface}");
    }
    if let Some(node) = &nic.numa_node {
        found += &format!(", NUMA node {node}");
    }
    let what = format!("NIC {}", nic.address);
    match driver {
        // NVIDIA's kernel driver stays bound and shares the device with DPDK.
        "vfio-pci" | "uio_pci_generic" | "igb_uio" | "mlx5_core" | "mlx4_core" => {
            Row::new(what, found, Verdict::Ok)
        }
        "none" => Row::new(what, found, Verdict::Warn)
            .mend(format!("dpdk-devbind.py --bind=vfio-pci {}", nic.address)),
        _ => Row::new(what, format!("{found}: Linux uses it"), Verdict::NotApplicable)
            .mend(format!("dpdk-devbind.py --bind=vfio-pci {}   # takes it from Linux", nic.address)),
    }
}

/// Intel's 700 series, for which the paper's settings are.
fn is_intel_700(nic: &Nic) -> bool {
    let Some(device) = nic.id.strip_prefix("8086:").and_then(|d| u16::from_str_radix(d, 16).ok()) else {
        return false;
    };
    matches!(device, 0x1572 | 0x1574 | 0x1580..=0x158B | 0x37CE..=0x37D3 | 0x101F | 0x0CF8 | 0x0D58)
}

/// Intel's 800 series.
fn is_intel_800(nic: &Nic) -> bool {
    let Some(device) = nic.id.strip_prefix("8086:").and_then(|d| u16::from_str_radix(d, 16).ok()) else {
        return false;
    };
    matches!(device, 0x1591..=0x1593 | 0x1599..=0x159B | 0x188A..=0x188E | 0x1890..=0x1899 | 0x12D1..=0x12D4)
}

fn express_rows(host: &Host, nic: &Nic) -> Vec<Row> {
    let (tag, size) =
        (format!("{} Extended Tag", nic.address), format!("{} Max_Read_Request_Size", nic.address));
    let Some(config) = host.bytes(&format!("{DEVICES}/{}/config", nic.address)) else { return Vec::new() };
    let Some(express) = express(&config) else {
        let found = if config.len() <= 64 { "only root can read it" } else { "not a PCI Express device" };
        return vec![
            Row::new(tag, found, Verdict::NotApplicable),
            Row::new(size, found, Verdict::NotApplicable),
        ];
    };
    let set = |value: &str| format!("setpci -s {} CAP_EXP+8.w={value}", nic.address);
    let tag = match (express.extended_tag, express.extended_tag_supported) {
        (true, _) => Row::new(tag, "on", Verdict::Ok),
        (false, true) => {
            Row::new(tag, "off: 32 instead of 256 requests under way", Verdict::Warn).mend(set("0100:0100"))
        }
        (false, false) => Row::new(tag, "not supported", Verdict::NotApplicable),
    };
    let bytes = format!("{} bytes", express.max_read_request);
    let size = match (is_intel_700(nic), express.max_read_request) {
        (true, 128) => Row::new(size, bytes, Verdict::Ok),
        (true, _) => {
            Row::new(size, format!("{bytes}; 128 suits small packets"), Verdict::Warn).mend(set("0000:7000"))
        }
        (false, _) => Row::new(size, bytes, Verdict::Ok),
    };
    vec![tag, size]
}

/// True if the header defines one of these names.
fn defines(header: &str, names: &[&str]) -> bool {
    let mut defined = header
        .lines()
        .filter_map(|l| l.trim().strip_prefix("#define "))
        .filter_map(|l| l.split_whitespace().next());
    defined.any(|name| names.contains(&name))
}

fn descriptor_row(host: &Host, nic: &Nic) -> Option<Row> {
    let name = match (is_intel_700(nic), is_intel_800(nic)) {
        (true, _) => "RTE_LIBRTE_I40E_16BYTE_RX_DESC",
        (_, true) => "RTE_LIBRTE_ICE_16BYTE_RX_DESC",
        _ => return None,
    };
    let what = format!("{} descriptors", nic.address);
    let Some(header) = DPDK_CONFIGS.iter().find_map(|path| host.read(path)) else {
        return Some(Row::new(what, "DPDK's headers are not installed", Verdict::NotApplicable));
    };
    Some(match defines(&header, &[name, "RTE_NET_INTEL_USE_16BYTE_DESC"]) {
        true => Row::new(what, "16 bytes", Verdict::Ok),
        false => Row::new(what, "32 bytes: twice the reads over PCI", Verdict::Warn)
            .mend(format!("build DPDK with: meson setup build -Dc_args=-D{name}=1")),
    })
}

/// True if ethtool's answer says that ports are hashed.
fn hashes_ports(answer: &str) -> bool {
    answer.contains("L4 bytes 0 & 1") && answer.contains("L4 bytes 2 & 3")
}

fn rss_row(host: &Host, nic: &Nic) -> Row {
    let what = format!("{} RSS fields", nic.address);
    let Some(interface) = &nic.interface else {
        return Row::new(what, "set when the router starts", Verdict::NotApplicable);
    };
    match host.run("ethtool", &["-n", interface, "rx-flow-hash", "udp4"]) {
        None => Row::new(what, "the driver does not tell", Verdict::NotApplicable),
        Some(answer) if hashes_ports(&answer) => Row::new(what, "addresses and ports", Verdict::Ok),
        Some(_) => Row::new(what, "no ports for UDP: flows between two hosts share a queue", Verdict::Warn)
            .mend(format!("ethtool -N {interface} rx-flow-hash udp4 sdfn")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_dpdk_was_built() {
        let header = "/* x */\n#define RTE_MAX_LCORE 128\n#undef RTE_LIBRTE_I40E_16BYTE_RX_DESC\n";
        assert!(!defines(header, &["RTE_LIBRTE_I40E_16BYTE_RX_DESC"]));
        assert!(defines("#define RTE_LIBRTE_I40E_16BYTE_RX_DESC 1\n", &["RTE_LIBRTE_I40E_16BYTE_RX_DESC"]));
        assert!(!defines(
            "#define RTE_LIBRTE_I40E_16BYTE_RX_DESCRIPTOR 1\n",
            &["RTE_LIBRTE_I40E_16BYTE_RX_DESC"]
        ));
    }

    #[test]
    fn what_ethtool_says() {
        let both = "UDP over IPV4 flows use these fields for computing Hash flow key:\nIP SA\nIP DA\n\
                    L4 bytes 0 & 1 [TCP/UDP src port]\nL4 bytes 2 & 3 [TCP/UDP dst port]\n\n";
        assert!(hashes_ports(both));
        assert!(!hashes_ports(
            "UDP over IPV4 flows use these fields for computing Hash flow key:\nIP SA\nIP DA\n"
        ));
    }
}
