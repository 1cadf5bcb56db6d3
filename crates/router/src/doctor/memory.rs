//! Huge pages, locked memory, NUMA.

use super::host::Host;
use super::rights::has_ipc_lock;
use super::{Row, Verdict};

const POOLS: &str = "/sys/kernel/mm/hugepages";
/// What a router with a few ports takes, in KiB.
const NEEDED_KIB: u64 = 256 << 10;

/// Huge pages of one size.
#[derive(Debug, PartialEq, Eq)]
struct Pool {
    size_kib: u64,
    total: u64,
    free: u64,
}

pub fn rows(host: &Host) -> Vec<Row> {
    let pools = pools(host);
    let enough = pools.iter().any(|p| p.free * p.size_kib >= NEEDED_KIB);
    let mut rows: Vec<Row> = pools.iter().map(|p| pool_row(p, enough)).collect();
    if pools.is_empty() {
        rows.push(Row::new(
            "huge pages",
            "this kernel has none; DPDK runs with --no-huge, at about half the rate",
            Verdict::Warn,
        ));
    } else {
        rows.push(mount_row(host));
    }
    rows.push(transparent_row(host));
    rows.push(locked_row(host));
    rows.push(numa_row(host));
    rows
}

fn pools(host: &Host) -> Vec<Pool> {
    let pool = |name: String| {
        let number = |file: &str| host.read(&format!("{POOLS}/{name}/{file}"))?.parse().ok();
        let size_kib = name.strip_prefix("hugepages-")?.strip_suffix("kB")?.parse().ok()?;
        Some(Pool { size_kib, total: number("nr_hugepages")?, free: number("free_hugepages")? })
    };
    let mut pools: Vec<Pool> = host.list(POOLS).into_iter().filter_map(pool).collect();
    pools.sort_by_key(|p| p.size_kib);
    pools
}

fn pool_row(pool: &Pool, enough: bool) -> Row {
    let size = match pool.size_kib {
        k if k % (1 << 20) == 0 => format!("{} GiB", k >> 20),
        k if k % (1 << 10) == 0 => format!("{} MiB", k >> 10),
        k => format!("{k} KiB"),
    };
    let what = format!("huge pages of {size}");
    let found = format!("{}, {} of them free", pool.total, pool.free);
    let suffices = pool.free * pool.size_kib >= NEEDED_KIB;
    match (suffices, enough) {
        (true, _) => Row::new(what, found, Verdict::Ok),
        (false, true) => Row::new(what, found, Verdict::NotApplicable),
        (false, false) => {
            let pages = pool.total - pool.free.min(pool.total) + (4 * NEEDED_KIB).div_ceil(pool.size_kib);
            let found = format!("{found}; without huge pages the rate is about half");
            let file = format!("{POOLS}/hugepages-{}kB/nr_hugepages", pool.size_kib);
            Row::new(what, found, Verdict::Warn).mend(format!("echo {pages} > {file}"))
        }
    }
}

/// The mount points of hugetlbfs in `/proc/mounts`.
fn mount_points(mounts: &str) -> Vec<&str> {
    let words = mounts.lines().map(|l| l.split_whitespace().collect::<Vec<_>>());
    words.filter(|w| w.get(2) == Some(&"hugetlbfs")).filter_map(|w| w.get(1).copied()).collect()
}

fn transparent_row(host: &Host) -> Row {
    let what = "transparent huge pages";
    let file = "/sys/kernel/mm/transparent_hugepage/enabled";
    let text = host.read(file).unwrap_or_default();
    let chosen = text.split_whitespace().find_map(|word| word.strip_prefix('[')?.strip_suffix(']'));
    match chosen {
        Some("never") => Row::new(what, "never: lookups in large tables take twice as long", Verdict::Warn)
            .mend(format!("echo madvise > {file}")),
        Some(chosen) => Row::new(what, chosen, Verdict::Ok),
        None => Row::new(what, "this kernel has none", Verdict::NotApplicable),
    }
}

fn mount_row(host: &Host) -> Row {
    let mounts = host.read("/proc/mounts").unwrap_or_default();
    let points = mount_points(&mounts);
    let what = "hugetlbfs";
    // DPDK asks for anonymous huge pages where nothing is mounted, so this is only needed to share them.
    match points.first() {
        None => Row::new(what, "not mounted: only needed to share them", Verdict::NotApplicable)
            .mend("mkdir -p /dev/hugepages && mount -t hugetlbfs none /dev/hugepages"),
        Some(first) if points.iter().any(|p| host.is_writable(p)) => {
            Row::new(what, format!("mounted at {first}, writable"), Verdict::Ok)
        }
        Some(first) => {
            Row::new(what, format!("mounted at {first}, not writable for this user"), Verdict::Warn)
                .mend(format!("chown $USER {first}   # as root, or run as root"))
        }
    }
}

/// The soft limit of locked memory in `/proc/self/limits`, in bytes; `None` inside is "unlimited".
fn locked_limit(limits: &str) -> Option<Option<u64>> {
    let line = limits.lines().find_map(|l| l.strip_prefix("Max locked memory"))?;
    match line.split_whitespace().next()? {
        "unlimited" => Some(None),
        bytes => bytes.parse().ok().map(Some),
    }
}

fn locked_row(host: &Host) -> Row {
    let what = "locked memory";
    let Some(limit) = host.read("/proc/self/limits").and_then(|l| locked_limit(&l)) else {
        return Row::new(what, "cannot be told", Verdict::NotApplicable);
    };
    match limit {
        None => Row::new(what, "unlimited", Verdict::Ok),
        Some(bytes) if has_ipc_lock(host) => {
            Row::new(what, format!("{} MiB, lifted by CAP_IPC_LOCK", bytes >> 20), Verdict::Ok)
        }
        Some(bytes) if bytes >> 10 >= NEEDED_KIB => {
            Row::new(what, format!("{} MiB", bytes >> 20), Verdict::Ok)
        }
        Some(bytes) => {
            Row::new(what, format!("{} KiB: too little to map for a device", bytes >> 10), Verdict::Warn)
                .mend("ulimit -l unlimited   # as root, or LimitMEMLOCK=infinity in a systemd unit")
        }
    }
}

fn numa_row(host: &Host) -> Row {
    let nodes = host.list("/sys/devices/system/node");
    let nodes =
        nodes.iter().filter(|n| n.strip_prefix("node").is_some_and(|d| d.parse::<u32>().is_ok())).count();
    match nodes {
        0 | 1 => Row::new("NUMA nodes", "1", Verdict::Ok),
        n => Row::new(
            "NUMA nodes",
            format!("{n}: bind workers to the node of their NIC (run --cpus)"),
            Verdict::Ok,
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts() {
        let text = "proc /proc proc rw 0 0\nhugetlbfs /dev/hugepages hugetlbfs rw,pagesize=2M 0 0\n\
                    none /mnt/huge1g hugetlbfs rw,pagesize=1G 0 0\ntmpfs /hugetlbfs tmpfs rw 0 0\n";
        assert_eq!(mount_points(text), ["/dev/hugepages", "/mnt/huge1g"]);
        assert_eq!(mount_points(""), [""; 0]);
    }

    #[test]
    fn limits() {
        let text = |v| {
            format!(
                "Limit   Soft Limit  Hard Limit  Units\nMax locked memory         {v}    8388608    bytes\n"
            )
        };
        assert_eq!(locked_limit(&text("8388608")), Some(Some(8_388_608)));
        assert_eq!(locked_limit(&text("unlimited")), Some(None));
        assert_eq!(locked_limit("Max stack size 1 1 bytes"), None);
    }

    #[test]
    fn a_page_pool_that_is_too_small_is_enlarged() {
        let row = pool_row(&Pool { size_kib: 2048, total: 100, free: 20 }, false);
        assert_eq!((row.what.as_str(), row.verdict), ("huge pages of 2 MiB", Verdict::Warn));
        assert_eq!(
            row.mend.as_deref(),
            Some("echo 592 > /sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages")
        );
        assert_eq!(
            pool_row(&Pool { size_kib: 1 << 20, total: 0, free: 0 }, true).verdict,
            Verdict::NotApplicable
        );
        assert_eq!(pool_row(&Pool { size_kib: 1 << 20, total: 1, free: 1 }, true).verdict, Verdict::Ok);
    }
}
