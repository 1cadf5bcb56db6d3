//! What hands PCI devices to programs: IOMMU and drivers.

use super::host::Host;
use super::{Row, Verdict};

pub fn rows(host: &Host, has_nics: bool) -> Vec<Row> {
    vec![iommu_row(host, has_nics), driver_row(host, has_nics)]
}

fn iommu_row(host: &Host, has_nics: bool) -> Row {
    let groups = host.list("/sys/kernel/iommu_groups").len();
    // AMD's is on unless it is switched off.
    let amd = host.read("/proc/cpuinfo").is_some_and(|info| info.contains("AuthenticAMD"));
    let words = if amd { "iommu=pt" } else { "intel_iommu=on iommu=pt" };
    match (groups, has_nics) {
        (0, false) => Row::new("IOMMU", "off; there are no PCI NICs", Verdict::NotApplicable),
        (0, true) => Row::new("IOMMU", "off: vfio-pci can only be used without protection", Verdict::Warn)
            .mend(format!(
                "echo 'GRUB_CMDLINE_LINUX=\"$GRUB_CMDLINE_LINUX {words}\"' > /etc/default/grub.d/iommu.cfg && \
                 update-grub && reboot   # or, without protection: modprobe vfio enable_unsafe_noiommu_mode=1"
            )),
        (n, _) => Row::new("IOMMU", format!("on, {n} groups"), Verdict::Ok),
    }
}

fn driver_row(host: &Host, has_nics: bool) -> Row {
    let drivers = ["vfio-pci", "uio_pci_generic", "igb_uio"];
    let loaded: Vec<&str> =
        drivers.into_iter().filter(|d| host.exists(&format!("/sys/bus/pci/drivers/{d}"))).collect();
    match (loaded.as_slice(), has_nics) {
        ([], false) => {
            Row::new("drivers for user space", "none; there are no PCI NICs", Verdict::NotApplicable)
        }
        ([], true) => {
            Row::new("drivers for user space", "none loaded", Verdict::Warn).mend("modprobe vfio-pci")
        }
        (some, _) => Row::new("drivers for user space", some.join(", "), Verdict::Ok),
    }
}
