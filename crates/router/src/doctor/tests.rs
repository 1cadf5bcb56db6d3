//! A whole machine made of files.

use super::*;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

fn put(root: &Path, path: &str, text: impl AsRef<[u8]>) {
    let file = root.join(path);
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(file, text).unwrap();
}

fn nic(root: &Path, address: &str, device: &str, driver: &str, config: &[u8]) {
    let dir = format!("sys/bus/pci/devices/{address}");
    put(root, &format!("{dir}/class"), "0x020000\n");
    put(root, &format!("{dir}/vendor"), "0x8086\n");
    put(root, &format!("{dir}/device"), device);
    put(root, &format!("{dir}/numa_node"), "0\n");
    put(root, &format!("{dir}/config"), config);
    fs::create_dir_all(root.join(format!("sys/bus/pci/drivers/{driver}"))).unwrap();
    symlink(format!("../../drivers/{driver}"), root.join(format!("{dir}/driver"))).unwrap();
}

fn lines(host: &Host) -> Vec<String> {
    let rows = examine(host).into_iter().filter(|r| r.what != "DPDK");
    rows.map(|r| format!("{} | {} | {}", r.verdict.word(), r.what, r.found)).collect()
}

fn server(root: &Path) {
    for (size, total, free) in [("2048", "1024", "1000"), ("1048576", "0", "0")] {
        let pool = format!("sys/kernel/mm/hugepages/hugepages-{size}kB");
        put(root, &format!("{pool}/nr_hugepages"), total);
        put(root, &format!("{pool}/free_hugepages"), free);
    }
    put(root, "proc/mounts", "none /dev/hugepages hugetlbfs rw 0 0\n");
    put(root, "dev/hugepages/x", "");
    put(root, "sys/kernel/mm/transparent_hugepage/enabled", "always madvise [never]\n");
    put(
        root,
        "proc/self/limits",
        "Max locked memory         8388608              8388608              bytes\n",
    );
    put(root, "proc/self/status", "CapEff:\t0000000000001000\n");
    put(root, "proc/cpuinfo", "flags : avx2 constant_tsc nonstop_tsc\n");
    put(root, "sys/devices/system/cpu/online", "0-7\n");
    put(root, "sys/devices/system/cpu/isolated", "2-7\n");
    put(root, "sys/devices/system/cpu/nohz_full", "(null)\n");
    put(root, "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "powersave\n");
    put(root, "sys/devices/system/node/node0/x", "");
    put(root, "sys/devices/system/node/node1/x", "");
    put(root, "sys/kernel/iommu_groups/0/x", "");
    put(root, "dev/net/tun", "");
    put(root, "usr/include/dpdk/rte_config.h", "#define RTE_MAX_LCORE 128\n");
    nic(root, "0000:3b:00.0", "0x1583\n", "vfio-pci", &pci::tests::space(0x20, 0x2000));
    nic(root, "0000:3b:00.1", "0x1521\n", "igb", &pci::tests::space(0x20, 0x2100)[..64]);
}

#[test]
fn a_server_with_a_nic() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    server(root);
    assert_eq!(
        lines(&Host::at(root)),
        [
            "ok | huge pages of 2 MiB | 1024, 1000 of them free",
            "n.a. | huge pages of 1 GiB | 0, 0 of them free",
            "ok | hugetlbfs | mounted at /dev/hugepages, writable",
            "warn | transparent huge pages | never: lookups in large tables take twice as long",
            "warn | locked memory | 8192 KiB: too little to map for a device",
            "ok | NUMA nodes | 2: bind workers to the node of their NIC (run --cpus)",
            "ok | isolcpus | processors 2-7",
            "warn | nohz_full | none: other programs and the kernel's tick interrupt the workers",
            "warn | CPU governor | powersave",
            "ok | AVX2 | yes",
            "n.a. | AVX-512 | no",
            "ok | time stamp counter | constant",
            "ok | CAP_NET_ADMIN | yes",
            "warn | CAP_NET_RAW | no: needed for raw sockets on Linux interfaces",
            "warn | CAP_IPC_LOCK | no: needed for memory that devices use",
            "ok | /dev/net/tun | can be opened",
            "ok | IOMMU | on, 1 groups",
            "ok | drivers for user space | vfio-pci",
            "ok | NIC 0000:3b:00.0 | 8086:1583, driver vfio-pci, NUMA node 0",
            "warn | 0000:3b:00.0 Extended Tag | off: 32 instead of 256 requests under way",
            "warn | 0000:3b:00.0 Max_Read_Request_Size | 512 bytes; 128 suits small packets",
            "warn | 0000:3b:00.0 descriptors | 32 bytes: twice the reads over PCI",
            "n.a. | 0000:3b:00.0 RSS fields | set when the router starts",
            "n.a. | NIC 0000:3b:00.1 | 8086:1521, driver igb, NUMA node 0: Linux uses it",
            "n.a. | 0000:3b:00.1 Extended Tag | only root can read it",
            "n.a. | 0000:3b:00.1 Max_Read_Request_Size | only root can read it",
            "n.a. | 0000:3b:00.1 RSS fields | set when the router starts",
        ]
    );
    for row in examine(&Host::at(root)) {
        assert!(row.verdict != Verdict::Warn || row.mend.is_some(), "{row:?}");
    }
}

#[test]
fn a_machine_without_anything() {
    let dir = tempfile::tempdir().unwrap();
    let rows = lines(&Host::at(dir.path()));
    assert!(rows.iter().any(|r| r.starts_with("warn | huge pages | this kernel has none")), "{rows:?}");
    assert!(rows.iter().any(|r| r == "warn | /dev/net/tun | not there: no taps"), "{rows:?}");
    let none = "n.a. | PCI NICs | none; Linux interfaces and virtual devices can be used";
    assert_eq!(rows.last().map(String::as_str), Some(none));
}

#[test]
fn printed() {
    let rows = [Row::new("a", "x", Verdict::Ok), Row::new("long", "y", Verdict::Warn).mend("do z")];
    assert_eq!(
        describe(&rows, false),
        "ok    a     x\nwarn  long  y\n            -> do z\n\n1 ok, 1 to improve, 0 bad\n"
    );
    assert_eq!(serde_json::to_string(&Verdict::NotApplicable).unwrap(), "\"n.a.\"");
}
