//! What cannot be a port is refused before anything is touched, with what to do; the exit code says so.

use lab::Result;
use lab::netns::{self, Namespace};
use lab::routebricks::binary;
use lab::twins::Stage;

/// Runs a router that is to refuse with these words and leave interfaces as they are. `ports` are words for a shell.
fn refuses(inside: &Namespace, before: &str, ports: &str, words: &[&str]) -> Result<()> {
    let interfaces = || inside.run("ip", &["-d", "address"]);
    let there = interfaces()?;
    let line = format!("{before} timeout 10 {} router {ports} </dev/null", binary()?.display());
    let output = inside.output("sh", &["-c", &line])?;
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{line}: {said}");
    assert!(words.iter().all(|word| said.contains(word)) && said.lines().count() == 1, "{line}: {said}");
    assert_eq!(interfaces()?, there, "{line}");
    Ok(())
}

#[test]
fn what_is_no_port_is_left_alone() -> Result<()> {
    if netns::skipped() {
        return Ok(());
    }
    let stage = Stage::new(1, &[])?;
    let inside = &stage.inside;
    let names = ["0", "a,b", "a\"b", "-x"];
    let lines = ["member", "Wan0"].iter().chain(&names).map(|name| format!("link add {name} type veth\n"));
    inside.ip(&lines.collect::<String>().replace("a\"b", "'a\"b'"))?;
    inside.ip("tuntap add dev tun0 mode tun\nlink add br0 type bridge\nlink set member master br0\n")?;
    let expected: [(&str, &[&str]); 12] = [
        ("lo", &["lo is the loopback interface"]),
        ("Wan0 lo", &["lo is the loopback interface"]),
        ("tun0", &["tun0 has no Ethernet address"]),
        ("br0", &["br0 is a bridge"]),
        ("member", &["belongs to the bridge br0", "ip link set member nomaster"]),
        ("wan0", &["no interface wan0", "did you mean Wan0?"]),
        ("''", &["cannot be the name of a Linux interface"]),
        ("..", &["cannot be the name of a Linux interface"]),
        ("0", &["'0' cannot be a port", "ip link set dev OLD name NEW"]),
        ("a,b", &["'a,b' cannot be a port", "ip link set dev OLD name NEW"]),
        ("'a\"b'", &["cannot be a port", "ip link set dev OLD name NEW"]),
        ("Wan0 eth1", &["eth1 is a port of the router with process ID"]),
    ];
    for (ports, words) in expected {
        refuses(inside, "", ports, words)?;
    }
    refuses(inside, "ulimit -n 40;", "Wan0 tap7 x1 x2", &["needs up to 86 open files", "ulimit -n"])?;
    refuses(inside, "setpriv --bounding-set=-net_raw", "Wan0", &["root", "missing here: CAP_NET_RAW"])?;
    // The router that has eth1 has not noticed anything.
    stage.wait_for_ping(0, "10.1.0.1", true)?;
    stage.end()
}
