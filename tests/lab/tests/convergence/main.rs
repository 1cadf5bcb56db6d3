//! Figures of convergence with a full table: `make convergence`. Nothing here is judged but that it ends well; what the
//! figures are to be stands in the manual beside what they were.

mod churn;
mod dump;
mod failover;
mod latency;
mod restart;
mod side;
mod storm;

use std::net::IpAddr;
use std::time::{Duration, Instant};

use control::{Control, Settings, Source, Tables};
use lab::daemons::{Bird, Family, Frr, SynthTable};
use lab::netns::{self, Namespace};
use lab::twins::Stage;
use lab::{Context, Error, Result};

/// The size of the Internet's tables.
const PREFIXES: [usize; 2] = [900_000, 160_000];
/// How long any daemon may take for them.
const LIMIT: Duration = Duration::from_secs(180);

/// What routes in our namespace.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Daemon {
    Bird,
    Frr,
    Fpm,
}

/// The daemon of ours, running.
enum Running {
    Bird { _bird: Bird },
    Frr { _frr: Frr },
}

impl Daemon {
    fn start(self, stage: &Stage) -> Result<Running> {
        let directory = stage.directory.path();
        let sessions = [("four", "10.1.0.", 4), ("six", "2001:db8:1::", 6)];
        if self == Daemon::Bird {
            let mut config = "router id 10.1.0.1;\n".to_owned();
            for (name, net, family) in sessions {
                let channel = format!("ipv{family} {{ import all; export none; }};");
                config +=
                    &Bird::session(name, (&format!("{net}1"), 65000), (&format!("{net}2"), 65001), &channel);
            }
            return Ok(Running::Bird { _bird: Bird::start(&stage.inside, directory, "ours", &config)? });
        }
        let mut lines = "router bgp 65000\nno bgp ebgp-requires-policy\n".to_owned();
        if self == Daemon::Fpm {
            lines = format!("fpm address 127.0.0.1 port 2620\n{lines}");
        }
        for (_, net, _) in sessions {
            lines += &format!("neighbor {net}2 remote-as 65001\nneighbor {net}2 timers connect 1\n");
        }
        lines += "address-family ipv4 unicast\nno neighbor 2001:db8:1::2 activate\nexit-address-family\n\
                  address-family ipv6 unicast\nneighbor 2001:db8:1::2 activate\n";
        let zebra =
            if self == Daemon::Fpm { "zebra -s 90000000 -M dplane_fpm_nl" } else { "zebra -s 90000000" };
        Ok(Running::Frr { _frr: Frr::start(&stage.inside, directory, &[zebra, "bgpd"], &lines)? })
    }
}

/// The neighbour, which announces the tables.
fn announcer(stage: &Stage, tables: &[SynthTable; 2]) -> Result<Bird> {
    let mut config = "router id 10.1.0.2;\nprotocol device {}\n".to_owned();
    tables.iter().for_each(|table| config += &table.include());
    for (name, net, family) in [("four", "10.1.0.", 4), ("six", "2001:db8:1::", 6)] {
        let channel = format!("ipv{family} {{ import none; export where source = RTS_STATIC; }};");
        config += &Bird::session(name, (&format!("{net}2"), 65001), (&format!("{net}1"), 65000), &channel);
    }
    Bird::start_with(&stage.hosts[0], stage.directory.path(), "announcer", &config)
}

/// A full table by BGP: when the kernel has it, and when we do.
fn learn(title: &str, daemon: Daemon) -> Result<()> {
    if netns::skipped() || Bird::skipped() || Frr::skipped() {
        return Ok(());
    }
    let stage = Stage::new(1, if daemon == Daemon::Fpm { &["--fpm"] } else { &[] })?;
    let directory = stage.directory.path();
    let tables = [Family::V4, Family::V6];
    let [four, six] = [0, 1].map(|i| SynthTable::make(directory, tables[i], PREFIXES[i]));
    let tables = [four?, six?];
    let running = daemon.start(&stage)?;
    let before = (stage.kernel_fib()?, stage.fib()?);
    let _announcer = announcer(&stage, &tables)?;
    let begun = Instant::now();
    let (mut kernel, mut ours) = (None, None);
    let is_full = |now: [usize; 2], before: [usize; 2]| (0..2).all(|i| now[i] >= before[i] + PREFIXES[i]);
    while kernel.is_none() || ours.is_none() {
        // The kernel counts for a while: it may have been full since the beginning.
        let asked = begun.elapsed();
        if kernel.is_none() && is_full(stage.kernel_fib()?, before.0) {
            kernel = Some(asked);
        }
        if ours.is_none() && is_full(stage.fib()?, before.1) {
            ours = Some(begun.elapsed());
        }
        if begun.elapsed() > LIMIT {
            return Err(Error::new(format!("{title}: {:?} {:?}", stage.kernel_fib()?, stage.fib()?)));
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    let seconds = |time: Option<Duration>| time.unwrap_or_default().as_secs_f64();
    let (kernel, ours) = (seconds(kernel), seconds(ours));
    println!(
        "{title}: the kernel has all after {kernel:.2} s, we after {ours:.2} s: at most {:.2} s later",
        ours - kernel
    );
    if daemon == Daemon::Bird {
        let (time, used) = dump(&stage.inside)?;
        let [time, used] = [time, used].map(|time| time.as_secs_f64());
        println!("a full dump of it: {time:.2} s, {used:.2} s of processor time with the kernel's");
    }
    drop(running);
    stage.end()
}

/// The processor time of this process.
fn used() -> Result<Duration> {
    let text = std::fs::read_to_string("/proc/self/stat").cannot(|| "read /proc/self/stat".to_owned())?;
    // Behind the name in parentheses; times of the process and of the kernel for it, in hundredths of a second.
    let figures = text.rsplit(')').next().unwrap_or_default().split_whitespace().skip(11).take(2);
    let ticks: u64 = figures.filter_map(|figure| figure.parse::<u64>().ok()).sum();
    Ok(Duration::from_millis(10 * ticks))
}

/// How long one who begins to listen takes to have everything in tables, and of which processor time.
fn dump(namespace: &Namespace) -> Result<(Duration, Duration)> {
    let tables = Tables::default();
    let before = used()?;
    let begun = Instant::now();
    let handle = namespace.inside(|| {
        let twin = control::link::link("eth1").cannot(|| "find eth1".to_owned())?.index;
        let settings = Settings { ports: vec![twin], source: Source::Kernel, buffer: Settings::BUFFER };
        Control::start(&settings, None, tables.clone()).cannot(|| "start to listen".to_owned())
    })?;
    let complete = handle.wait(LIMIT);
    let time = (begun.elapsed(), used()? - before);
    let count = [tables.routes4.len(), tables.routes6.len()];
    match complete && (0..2).all(|i| count[i] >= PREFIXES[i]) {
        true => Ok(time),
        false => Err(Error::new(format!("the dump has {count:?}"))),
    }
}

/// An address as bytes of a message.
fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

#[test]
#[ignore = "takes a minute and tells figures"]
fn bird_learns_a_full_table() -> Result<()> {
    learn("BIRD", Daemon::Bird)
}

#[test]
#[ignore = "takes a minute and tells figures"]
fn frr_learns_a_full_table() -> Result<()> {
    learn("FRR", Daemon::Frr)
}

#[test]
#[ignore = "takes a minute and tells figures"]
fn frr_sends_a_full_table_by_fpm() -> Result<()> {
    learn("FRR, FPM", Daemon::Fpm)
}
