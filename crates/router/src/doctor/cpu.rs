//! Processors: isolation, frequency, vector instructions, time stamp counter.

use super::host::Host;
use super::{Row, Verdict};
use std::collections::BTreeSet;

const CPU: &str = "/sys/devices/system/cpu";

pub fn rows(host: &Host) -> Vec<Row> {
    let online = host.read(&format!("{CPU}/online")).map_or(1, |list| count(&list));
    let info = host.read("/proc/cpuinfo").unwrap_or_default();
    let flags = flags(&info);
    vec![
        isolation_row(host, "isolcpus", "isolated", online),
        isolation_row(host, "nohz_full", "nohz_full", online),
        governor_row(host),
        avx2_row(&flags),
        avx512_row(&flags),
        tsc_row(&flags),
    ]
}

/// How many processors a list such as `0-3,8` has.
fn count(list: &str) -> usize {
    let part = |p: &str| {
        let (first, last) = p.split_once('-').unwrap_or((p, p));
        let (first, last) = (first.trim().parse::<usize>().ok()?, last.trim().parse::<usize>().ok()?);
        Some(last.checked_sub(first)?.saturating_add(1))
    };
    list.split(',').filter_map(part).fold(0, usize::saturating_add)
}

fn isolation_row(host: &Host, what: &str, file: &str, online: usize) -> Row {
    let list = host.read(&format!("{CPU}/{file}")).unwrap_or_default();
    // Without the feature the kernel prints "(null)".
    if count(&list) > 0 {
        return Row::new(what, format!("processors {list}"), Verdict::Ok);
    }
    if online <= 2 {
        return Row::new(
            what,
            format!("none; {online} processors are too few to keep some free"),
            Verdict::NotApplicable,
        );
    }
    let rest = format!("1-{}", online - 1);
    let line = format!("isolcpus={rest} nohz_full={rest} rcu_nocbs={rest}");
    let mend = format!(
        "echo 'GRUB_CMDLINE_LINUX=\"$GRUB_CMDLINE_LINUX {line}\"' > /etc/default/grub.d/routebricks.cfg && \
         update-grub && reboot"
    );
    Row::new(what, "none: other programs and the kernel's tick interrupt the workers", Verdict::Warn)
        .mend(mend)
}

fn governor_row(host: &Host) -> Row {
    let cpus = host.list(CPU).into_iter();
    let cpus = cpus.filter(|n| n.strip_prefix("cpu").is_some_and(|d| d.parse::<u32>().is_ok()));
    let governors: BTreeSet<String> =
        cpus.filter_map(|n| host.read(&format!("{CPU}/{n}/cpufreq/scaling_governor"))).collect();
    let found = governors.iter().cloned().collect::<Vec<_>>().join(", ");
    let what = "CPU governor";
    match governors.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        [] => Row::new(what, "none: the platform decides the frequency", Verdict::NotApplicable),
        ["performance"] => Row::new(what, found, Verdict::Ok),
        _ => Row::new(what, found, Verdict::Warn)
            .mend(format!("echo performance | tee {CPU}/cpu*/cpufreq/scaling_governor")),
    }
}

/// The flags of the first processor in `/proc/cpuinfo`.
fn flags(info: &str) -> BTreeSet<&str> {
    let line = info.lines().find(|l| l.split(':').next().is_some_and(|k| k.trim() == "flags"));
    line.and_then(|l| l.split_once(':')).map_or(BTreeSet::new(), |(_, f)| f.split_whitespace().collect())
}

fn avx2_row(flags: &BTreeSet<&str>) -> Row {
    match flags.contains("avx2") {
        true => Row::new("AVX2", "yes", Verdict::Ok),
        false => Row::new("AVX2", "no: drivers use slower paths", Verdict::Warn),
    }
}

fn avx512_row(flags: &BTreeSet<&str>) -> Row {
    // What DPDK's vector paths ask for.
    let missing: Vec<&str> =
        ["avx512f", "avx512bw", "avx512vl", "avx512dq"].into_iter().filter(|f| !flags.contains(f)).collect();
    match missing.as_slice() {
        [] => Row::new("AVX-512", "yes; DPDK uses it with -- --force-max-simd-bitwidth=512", Verdict::Ok),
        some if some.len() == 4 => Row::new("AVX-512", "no", Verdict::NotApplicable),
        some => Row::new("AVX-512", format!("in part: lacks {}", some.join(", ")), Verdict::NotApplicable),
    }
}

fn tsc_row(flags: &BTreeSet<&str>) -> Row {
    match flags.contains("constant_tsc") && flags.contains("nonstop_tsc") {
        true => Row::new("time stamp counter", "constant", Verdict::Ok),
        false => Row::new(
            "time stamp counter",
            "may change its rate: cycles per packet are not exact",
            Verdict::Warn,
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_processors() {
        assert_eq!(count("0-3,8"), 5);
        assert_eq!(count("0"), 1);
        for none in ["", "(null)", "3-1", "x-y"] {
            assert_eq!(count(none), 0, "{none}");
        }
    }

    #[test]
    fn processor_flags() {
        let info =
            "processor\t: 0\nvmx flags\t: x\nflags\t\t: fpu avx2 avx512f\nbugs\t: y\n\nflags\t: other\n";
        assert_eq!(flags(info), BTreeSet::from(["fpu", "avx2", "avx512f"]));
        assert_eq!(flags(""), BTreeSet::new());
        assert_eq!(avx512_row(&flags(info)).found, "in part: lacks avx512bw, avx512vl, avx512dq");
    }
}
