//! NICs that DPDK drives itself, as a virtual machine emulates them: frames cross, filters hold, cables are pulled.
//!
//! `make lab-vm` starts a guest with two of each model, joined by a cable. `LAB_NICS` names them:
//! `MODEL=ADDRESS,ADDRESS …`. Elsewhere these tests are skipped.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

use lab::routebricks::{Launch, Routebricks};
use lab::router::Router;
use lab::wait::wait_until;
use lab::{Context, Error, Result};

/// How long something may take in a guest without KVM.
const LIMIT: Duration = Duration::from_secs(60);
/// Time for QEMU's monitor to take a line.
const BETWEEN_ORDERS: Duration = Duration::from_millis(500);
/// Time for frames that must not arrive.
const QUIET: Duration = Duration::from_secs(2);

/// Two NICs of one model at the ends of a cable.
struct Pair {
    model: String,
    addresses: [String; 2],
}

/// The pairs that there are; none, and said so, outside such a guest.
fn pairs() -> Vec<Pair> {
    let named = env::var("LAB_NICS").unwrap_or_default();
    let pair = |word: &str| {
        let (model, addresses) = word.split_once('=')?;
        let (one, other) = addresses.split_once(',')?;
        Some(Pair { model: model.to_owned(), addresses: [one.to_owned(), other.to_owned()] })
    };
    let pairs: Vec<Pair> = named.split_whitespace().filter_map(pair).collect();
    if pairs.is_empty() {
        println!("skipped: there are no NICs to try (make lab-vm)");
    }
    pairs
}

impl Pair {
    /// QEMU's legacy virtio devices do not go through its IOMMU.
    fn without_iommu(&self) -> bool {
        self.model.starts_with("virtio")
    }

    /// Takes both from the kernel's driver.
    fn bind(&self) -> Result<()> {
        let driver = if self.without_iommu() { "uio_pci_generic" } else { "vfio-pci" };
        for address in &self.addresses {
            let device = PathBuf::from("/sys/bus/pci/devices").join(address);
            write(&device.join("driver_override"), driver)?;
            if !fs::read_link(device.join("driver")).is_ok_and(|path| path.ends_with(driver)) {
                if device.join("driver").exists() {
                    write(&device.join("driver/unbind"), address)?;
                }
                write(&Path::new("/sys/bus/pci/drivers").join(driver).join("bind"), address)?;
            }
        }
        Ok(())
    }

    /// A router with `source` that sends by the first and receives by the second; `receive` are arguments for both.
    fn start(&self, source: &str, receive: &str, directory: &Path) -> Result<Routebricks> {
        self.bind()?;
        let [one, other] = &self.addresses;
        let text = format!(
            "{source} -> out :: ToDPDKDevice({one}); in :: FromDPDKDevice({other}{receive}) -> Discard;\n\
             FromDPDKDevice({one}{receive}) -> Discard;"
        );
        let launch = Launch::conf("forward.click", &[])?;
        let mut arguments = vec!["run".to_owned(), "-e".to_owned(), text];
        if self.without_iommu() {
            arguments.extend(["--".to_owned(), "--iova-mode=pa".to_owned()]);
        }
        let router = Routebricks::start_here(Launch { arguments, ..launch }, directory)?;
        self.wait_for_carriers(&router, "1")?;
        Ok(router)
    }

    fn wait_for_carriers(&self, router: &Routebricks, carrier: &str) -> Result<()> {
        wait_until(&format!("{}: carrier {carrier}", self.model), LIMIT, || {
            let both = [router.handler("in", "carrier")?, router.handler("out", "carrier")?];
            Ok((both == [carrier, carrier]).then_some(()))
        })
    }

    /// Plugs the cable of both in, or pulls it.
    fn set_cable(&self, plugged: bool) -> Result<()> {
        for address in &self.addresses {
            let place = address.split(':').nth(2).and_then(|rest| rest.split('.').next()).unwrap_or_default();
            let state = if plugged { "on" } else { "off" };
            write(Path::new("/dev/ttyS2"), &format!("set_link nic{place} {state}\n"))?;
            // The monitor drops what comes while it echoes the line before.
            sleep(BETWEEN_ORDERS);
        }
        Ok(())
    }
}

fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).cannot(|| format!("write {text:?} to {}", path.display()))
}

/// A source, stopped at first, of so many frames of so many bytes to this address.
fn source(to: &str, length: usize, limit: u32) -> String {
    // Of a type that says nothing on what is behind it: emulated NICs drop packets that are malformed.
    format!(
        "s :: RatedSource(LENGTH {}, RATE 1000, LIMIT {limit}, ACTIVE false) -> EtherEncap(0x88b5, 02:00:00:00:00:01, {to})",
        length - 14
    )
}

fn directory() -> Result<tempfile::TempDir> {
    tempfile::tempdir().map_err(|error| Error::new(error.to_string()))
}

fn count(router: &Routebricks, element: &str, handler: &str) -> Result<u64> {
    let text = router.handler(element, handler)?;
    text.parse().map_err(|_| Error::new(format!("{element}.{handler} is {text}")))
}

/// Stops the router, whose accounting must balance.
fn end(mut router: Routebricks) -> Result<()> {
    for check in router.stop()? {
        assert!(check.holds, "{check:?}");
    }
    Ok(())
}

/// Starts the source and waits until it has sent all of its frames and `expected` of them have come.
fn send(router: &Routebricks, model: &str, all: u64, expected: u64) -> Result<()> {
    router.write("s", "active", "true")?;
    let mut seen = (0, 0);
    let done = wait_until("frames", LIMIT, || {
        seen = (count(router, "s", "count")?, count(router, "in", "count")?);
        Ok((seen == (all, expected)).then_some(()))
    });
    done.map_err(|_| {
        Error::new(format!("{model}: {seen:?} sent and received, expected {all} and {expected}"))
    })
}

#[test]
fn frames_cross_from_one_nic_to_the_other() -> Result<()> {
    for pair in pairs() {
        let directory = directory()?;
        let router =
            pair.start(&source("02:00:00:00:00:02", 60, 1000), ", PROMISC true", directory.path())?;
        send(&router, &pair.model, 1000, 1000)?;
        assert_eq!(count(&router, "out", "hw_count")?, 1000, "{}", pair.model);
        assert_eq!(count(&router, "in", "hw_count")?, 1000, "{}", pair.model);
        end(router)?;
    }
    Ok(())
}

#[test]
fn without_promisc_frames_to_other_addresses_are_not_received() -> Result<()> {
    for pair in pairs() {
        let directory = directory()?;
        let router =
            pair.start(&source("02:00:00:00:00:99", 60, 100), ", PROMISC false", directory.path())?;
        let mac = router.handler("in", "mac")?;
        router.write("s", "active", "true")?;
        wait_until("100 frames", LIMIT, || Ok((count(&router, "s", "count")? == 100).then_some(())))?;
        sleep(QUIET);
        assert_eq!(count(&router, "in", "count")?, 0, "{}", pair.model);
        end(router)?;
        for to in [mac.replace('-', ":").as_str(), "ff:ff:ff:ff:ff:ff"] {
            let router = pair.start(&source(to, 60, 100), ", PROMISC false", directory.path())?;
            send(&router, &format!("{} to {to}", pair.model), 100, 100)?;
            end(router)?;
        }
    }
    Ok(())
}

#[test]
fn a_pulled_cable_is_seen_and_frames_pass_once_it_is_back() -> Result<()> {
    for pair in pairs() {
        let directory = directory()?;
        let router = pair.start(&source("02:00:00:00:00:02", 60, 500), ", PROMISC true", directory.path())?;
        for _ in 0..2 {
            pair.set_cable(false)?;
            pair.wait_for_carriers(&router, "0")?;
            pair.set_cable(true)?;
            pair.wait_for_carriers(&router, "1")?;
        }
        send(&router, &pair.model, 500, 500)?;
        end(router)?;
    }
    Ok(())
}

#[test]
fn frames_of_nine_thousand_bytes_cross_where_the_mtu_says_so() -> Result<()> {
    for pair in pairs() {
        let directory = directory()?;
        let source = source("02:00:00:00:00:02", 9014, 50);
        let router = pair.start(&source, ", PROMISC true, MTU 9000", directory.path())?;
        send(&router, &pair.model, 50, 50)?;
        end(router)?;
    }
    Ok(())
}
