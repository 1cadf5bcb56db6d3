//! When probes pass an interface, by the kernel's clock: the same clock at both ends of a router.

use lab::netns::Namespace;
use nix::libc;
use nix::sys::socket::{
    AddressFamily, ControlMessageOwned, MsgFlags, SockFlag, SockProtocol, SockType, bind, recvmsg,
    setsockopt, socket, sockopt,
};
use nix::sys::time::TimeSpec;
use socket2::{SockFilter, SockRef};
use std::io::IoSliceMut;
use std::os::fd::{AsRawFd, OwnedFd};

/// Where probes come from in `conf/bench/ndr-latency.click`.
const SOURCE: u32 = u32::from_be_bytes([198, 18, 0, 2]);
/// Room for all probes of a trial.
const BUFFER: usize = 32 << 20;

/// A probe: nanoseconds since 1970, and its number.
pub type Passed = (u64, u16);

/// Sees the probes that come to an interface.
pub struct Tap {
    socket: OwnedFd,
}

impl Tap {
    /// Looks at an interface of a namespace from now on.
    pub fn open(namespace: &Namespace, interface: &str) -> Result<Tap, String> {
        let open = || open(interface).map_err(lab::Error::new);
        let tap = Tap { socket: namespace.inside(open).map_err(|e| format!("{interface}: {e}"))? };
        // Probes of other interfaces may have come between opening and binding.
        tap.passed()?;
        Ok(tap)
    }

    /// The probes that have passed since the last time.
    pub fn passed(&self) -> Result<Vec<Passed>, String> {
        let mut all = Vec::new();
        let (mut frame, mut control) = ([0; 64], nix::cmsg_space!(TimeSpec));
        loop {
            let mut room = [IoSliceMut::new(&mut frame)];
            let received =
                recvmsg::<()>(self.socket.as_raw_fd(), &mut room, Some(&mut control), MsgFlags::empty());
            let message = match received {
                Ok(message) => message,
                Err(nix::Error::EAGAIN) => return Ok(all),
                Err(nix::Error::EINTR) => continue,
                Err(error) => return Err(format!("cannot receive a probe: {error}")),
            };
            let time = message.cmsgs().ok().and_then(|mut all| {
                all.find_map(|one| match one {
                    ControlMessageOwned::ScmTimestampns(time) => Some(time),
                    _ => None,
                })
            });
            let time = time.ok_or("the kernel does not say when a probe came")?;
            let nanoseconds = time.tv_sec() as u64 * 1_000_000_000 + time.tv_nsec() as u64;
            if let Some(&[high, low]) = frame.get(34..36) {
                all.push((nanoseconds, u16::from_be_bytes([high, low])));
            }
        }
    }
}

/// A raw socket at an interface of the calling thread's namespace to which the kernel gives probes only: whatever else
/// came would cost the processors that the router needs.
fn open(interface: &str) -> Result<OwnedFd, String> {
    let failed = |what: &'static str| move |error: nix::Error| format!("cannot {what}: {error}");
    let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
    let socket = socket(AddressFamily::Packet, SockType::Raw, flags, SockProtocol::EthAll)
        .map_err(failed("open a packet socket"))?;
    SockRef::from(&socket).attach_filter(&probes_only()).map_err(|e| format!("cannot filter: {e}"))?;
    setsockopt(&socket, sockopt::RcvBufForce, &BUFFER).map_err(failed("enlarge the buffer"))?;
    setsockopt(&socket, sockopt::ReceiveTimestampns, &true).map_err(failed("ask for times"))?;
    let mut interfaces = nix::ifaddrs::getifaddrs().map_err(failed("list interfaces"))?;
    let address = interfaces.find_map(|entry| {
        entry.address.filter(|a| entry.interface_name == interface && a.as_link_addr().is_some())
    });
    bind(socket.as_raw_fd(), &address.ok_or("no such interface")?).map_err(failed("bind"))?;
    Ok(socket)
}

/// IPv4 from the probes' source.
fn probes_only() -> [SockFilter; 6] {
    let step = |code: u32, jt, jf, k| SockFilter::new(code as u16, jt, jf, k);
    let (load, equal) = (libc::BPF_LD | libc::BPF_ABS, libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K);
    [
        step(load | libc::BPF_H, 0, 0, 12),
        step(equal, 0, 3, 0x0800),
        step(load | libc::BPF_W, 0, 0, 26),
        step(equal, 0, 1, SOURCE),
        step(libc::BPF_RET | libc::BPF_K, 0, 0, u32::MAX),
        step(libc::BPF_RET | libc::BPF_K, 0, 0, 0),
    ]
}
