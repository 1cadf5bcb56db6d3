//! Links with long frames: Linux gets what is longer than Ethernet's usual 1500 bytes, and nothing waits behind it.

use lab::Result;
use lab::netns;
use lab::twins::{LIMIT, Stage};
use lab::wait::wait_until;

/// A stage whose links have these MTUs.
fn stage(mtus: [u16; 2]) -> Result<Stage> {
    let set = |name: &str, mtu: u16| format!("link set {name} mtu {mtu}\n");
    let stage = Stage::started_by(2, &[], |inside| {
        inside.ip(&(set("eth1", mtus[0]) + &set("eth2", mtus[1])))?;
        Ok(Vec::new())
    })?;
    for (host, mtu) in stage.hosts.iter().zip(mtus) {
        host.ip(&set("eth0", mtu))?;
    }
    for to in ["10.1.0.1", "10.2.0.2", "2001:db8:1::1", "2001:db8:2::2"] {
        stage.wait_for_ping(0, to, true)?;
    }
    Ok(stage)
}

/// Pings of so many bytes are all answered.
fn answered(stage: &Stage, to: &str, bytes: u16) -> Result<()> {
    let size = bytes.to_string();
    let printed =
        stage.hosts[0].output("ping", &["-c5", "-i0.1", "-W2", "-q", "-M", "do", "-s", &size, to])?;
    let printed = String::from_utf8_lossy(&printed.stdout);
    assert!(printed.contains("5 received"), "{bytes} to {to}: {printed}");
    Ok(())
}

#[test]
fn linux_gets_frames_as_long_as_its_mtu() -> Result<()> {
    if netns::skipped() {
        return Ok(());
    }
    for mtu in [1600, 9000] {
        let stage = stage([mtu, mtu])?;
        for (to, headers) in
            [("10.1.0.1", 28), ("2001:db8:1::1", 48), ("10.2.0.2", 28), ("2001:db8:2::2", 48)]
        {
            for bytes in [56, 1500, mtu - headers - 1, mtu - headers, 56] {
                answered(&stage, to, bytes)?;
            }
        }
        stage.end()?;
    }
    Ok(())
}

/// Packets of 9,000 bytes for a link of 1,500: Linux says so, however often, and answers everybody else.
#[test]
fn the_mtu_of_a_path_is_found_from_9000_to_1500() -> Result<()> {
    if netns::skipped() {
        return Ok(());
    }
    let stage = stage([9000, 1500])?;
    for (to, words) in [("10.2.0.2", "mtu = 1500"), ("2001:db8:2::2", "mtu=1500")] {
        for _ in 0..3 {
            wait_until("the path's MTU", LIMIT, || {
                // Else the host refuses such packets itself.
                stage.hosts[0].run("ip", &["route", "flush", "cache"])?;
                stage.hosts[0].run("ip", &["-6", "route", "flush", "cache"])?;
                let ping = ["-c1", "-W1", "-M", "do", "-s", "8900", to];
                let printed = stage.hosts[0].output("ping", &ping)?.stdout;
                let printed = String::from_utf8_lossy(&printed);
                Ok((printed.contains(words) && printed.contains("From ")).then_some(()))
            })?;
            answered(&stage, to, 56)?;
            answered(&stage, to, 1400)?;
        }
    }
    answered(&stage, "10.1.0.1", 56)?;
    answered(&stage, "10.1.0.1", 8900)?;
    stage.end()
}
