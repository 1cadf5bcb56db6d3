//! Counters in Prometheus' text format 0.0.4.

use super::Subject;
use io::{Port, PortStats};
use std::fmt::Write;

/// All metrics.
pub fn text(subject: &Subject) -> String {
    let mut out = Exposition::default();
    let router = &subject.router;
    out.family("routebricks_info", "gauge", "Version of the running program.");
    out.sample(&[("version", env!("CARGO_PKG_VERSION"))], 1);
    let (made, gone, lost) = router.balance();
    for (name, help, value) in [
        ("routebricks_packets_made_total", "Packets that came into being.", made),
        ("routebricks_packets_gone_total", "Packets whose way ended on purpose.", gone),
        ("routebricks_packets_lost_total", "Packets lost for any reason.", lost),
    ] {
        out.family(name, "counter", help);
        out.sample(&[], value);
    }
    out.family("routebricks_buffers_in_use", "gauge", "Packet buffers in use.");
    out.sample(&[], router.pool().in_use() as u64);
    out.family("routebricks_buffers", "gauge", "Packet buffers that there are.");
    out.sample(&[], router.pool().capacity() as u64);
    if let Some(control) = &subject.control {
        let row = control.row();
        out.family("routebricks_control_in_step", "gauge", "1 if the tables have what Linux and FRR have.");
        out.sample(&[], (row["state"] == "in step").into());
        out.family(
            "routebricks_control_restarts_total",
            "counter",
            "Times that the control side was started again.",
        );
        out.sample(&[], row["restarts"].as_u64().unwrap_or(0));
    }
    elements(subject, &mut out);
    ports(&subject.ports, &mut out);
    out.text
}

fn elements(subject: &Subject, out: &mut Exposition) {
    let rows = subject.router.node_rows();
    type Value = fn(&graph::NodeRow) -> u64;
    let families: [(&str, &str, Value); 5] = [
        ("routebricks_element_packets_total", "Packets that an element handled.", |r| r.packets),
        ("routebricks_element_calls_total", "Calls of an element that did something.", |r| r.calls),
        ("routebricks_element_cycles_total", "TSC cycles spent in an element (estimate).", |r| r.cycles),
        ("routebricks_element_empty_polls_total", "Task runs that found nothing.", |r| r.empty_polls),
        (
            "routebricks_element_empty_poll_cycles_total",
            "TSC cycles spent finding nothing (estimate).",
            |r| r.empty_cycles,
        ),
    ];
    for (name, help, value) in families {
        out.family(name, "counter", help);
        for row in &rows {
            out.sample(&[("element", &row.element), ("class", row.class)], value(row));
        }
    }
    out.family(
        "routebricks_element_lost_packets_total",
        "counter",
        "Packets lost at an element for a reason.",
    );
    for id in subject.router.plan().ids() {
        for loss in subject.router.losses_of(id) {
            let labels = [("element", loss.element.as_str()), ("class", loss.class), ("reason", loss.reason)];
            out.sample(&labels, loss.packets);
        }
    }
}

fn ports(ports: &[std::sync::Arc<dyn Port>], out: &mut Exposition) {
    out.family("routebricks_port_up", "gauge", "1 if frames can be sent.");
    for port in ports {
        out.sample(&[("port", port.name())], port.link().up.into());
    }
    let stats: Vec<(&str, PortStats)> = ports.iter().map(|p| (p.name(), p.stats())).collect();
    type Value = fn(&PortStats) -> u64;
    let families: [(&str, &str, Value); 8] = [
        ("rx_packets", "Packets received.", |s| s.rx_packets),
        ("rx_bytes", "Bytes received.", |s| s.rx_bytes),
        ("rx_missed_packets", "Packets that the device dropped because nobody took them.", |s| s.rx_missed),
        ("rx_faulty_packets", "Packets that the device found faulty.", |s| s.rx_errors),
        ("rx_no_buffer_packets", "Packets that found no buffer.", |s| s.rx_no_buffer),
        ("tx_packets", "Packets sent.", |s| s.tx_packets),
        ("tx_bytes", "Bytes sent.", |s| s.tx_bytes),
        ("tx_failed_packets", "Packets that the device failed to send.", |s| s.tx_errors),
    ];
    for (name, help, value) in families {
        out.family(&format!("routebricks_port_{name}_total"), "counter", help);
        for (port, stats) in &stats {
            out.sample(&[("port", port)], value(stats));
        }
    }
}

#[derive(Default)]
struct Exposition {
    text: String,
    name: String,
}

impl Exposition {
    fn family(&mut self, name: &str, kind: &str, help: &str) {
        name.clone_into(&mut self.name);
        let _ = writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn sample(&mut self, labels: &[(&str, &str)], value: u64) {
        self.text.push_str(&self.name);
        for (i, (label, text)) in labels.iter().enumerate() {
            let text = text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            let _ = write!(self.text, "{}{label}=\"{text}\"", if i == 0 { "{" } else { "," });
        }
        let _ = writeln!(self.text, "{} {value}", if labels.is_empty() { "" } else { "}" });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_escaped() {
        let mut out = Exposition::default();
        out.family("m", "counter", "Help.");
        out.sample(&[("a", "x\"\\\n"), ("b", "y")], 3);
        out.sample(&[], 4);
        assert_eq!(out.text, "# HELP m Help.\n# TYPE m counter\nm{a=\"x\\\"\\\\\\n\",b=\"y\"} 3\nm 4\n");
    }
}
