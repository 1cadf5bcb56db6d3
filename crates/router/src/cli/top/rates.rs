//! From two looks at a router to what happened in between.

use serde_json::{Value, json};
use std::collections::HashMap;
use std::time::Duration;

/// What a router said at one time.
#[derive(Clone, Debug, Default)]
pub struct Look {
    /// Rows of `/api/runtime`.
    pub runtime: Vec<Value>,
    /// Rows of `/api/interfaces`.
    pub interfaces: Vec<Value>,
    /// Rows of `/api/drops`.
    pub drops: Vec<Value>,
}

/// What one element did in a second. Of workers that run at the same time it is the sum.
#[derive(Clone, Debug, PartialEq)]
pub struct Rate {
    /// Its name.
    pub element: String,
    /// Its class.
    pub class: String,
    /// Calls.
    pub calls: f64,
    /// Packets.
    pub packets: f64,
    /// TSC cycles, empty polls not included.
    pub cycles: f64,
    /// Task runs that found nothing to do.
    pub empty_polls: f64,
    /// TSC cycles in those.
    pub empty_cycles: f64,
}

/// What all ports and elements did in a second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Totals {
    /// Packets that ports received.
    pub received: f64,
    /// Packets that ports sent.
    pub sent: f64,
    /// Packets that elements lost.
    pub lost: f64,
}

/// By how much counts rose from one look to the next, in a second. A router that has started anew counts from 0.
struct Rise {
    seconds: f64,
}

impl Rise {
    fn of(&self, now: &Value, before: Option<&Value>, key: &str) -> f64 {
        let count = |row: &Value| row[key].as_u64().unwrap_or(0);
        let rise = count(now).saturating_sub(before.map_or(0, count));
        if self.seconds > 0.0 { rise as f64 / self.seconds } else { 0.0 }
    }

    fn sum(&self, now: &[Value], before: &[Value], key: &str) -> f64 {
        let all = |rows: &[Value]| -> u64 { rows.iter().filter_map(|row| row[key].as_u64()).sum() };
        self.of(&json!({ key: all(now) }), Some(&json!({ key: all(before) })), key)
    }
}

/// What each element did between two looks, the one that used most time first.
pub fn rates(before: &Look, now: &Look, passed: Duration) -> Vec<Rate> {
    let rise = Rise { seconds: passed.as_secs_f64() };
    let name = |row: &Value| row["element"].as_str().unwrap_or_default().to_owned();
    let earlier: HashMap<String, &Value> = before.runtime.iter().map(|row| (name(row), row)).collect();
    let rate = |row: &Value| {
        let earlier = earlier.get(&name(row)).copied();
        let of = |key| rise.of(row, earlier, key);
        Rate {
            element: name(row),
            class: row["class"].as_str().unwrap_or_default().to_owned(),
            calls: of("calls"),
            packets: of("packets"),
            cycles: of("cycles"),
            empty_polls: of("empty_polls"),
            empty_cycles: of("empty_poll_cycles"),
        }
    };
    let mut rates: Vec<Rate> = now.runtime.iter().map(rate).collect();
    // Elements that did the same keep their order.
    rates.sort_by(|a, b| (b.cycles + b.empty_cycles).total_cmp(&(a.cycles + a.empty_cycles)));
    rates
}

/// What ports and elements did together between two looks.
pub fn totals(before: &Look, now: &Look, passed: Duration) -> Totals {
    let rise = Rise { seconds: passed.as_secs_f64() };
    Totals {
        received: rise.sum(&now.interfaces, &before.interfaces, "rx_packets"),
        sent: rise.sum(&now.interfaces, &before.interfaces, "tx_packets"),
        lost: rise.sum(&now.drops, &before.drops, "packets"),
    }
}

impl Rate {
    /// As JSON; shares are of one core, whose time-stamp counter runs at `tsc_hz`.
    pub fn json(&self, tsc_hz: f64) -> Value {
        let rounded = |value: f64, unit: f64| (value * unit).round() / unit;
        json!({
            "element": self.element,
            "class": self.class,
            "calls_per_second": rounded(self.calls, 10.0),
            "packets_per_second": rounded(self.packets, 10.0),
            "packets_per_call": self.packets_per_call().map(|n| rounded(n, 100.0)),
            "cycles_per_packet": self.cycles_per_packet().map(|n| rounded(n, 10.0)),
            "share_of_core": rounded(self.cycles / tsc_hz, 1e4),
            "empty_polls_per_second": rounded(self.empty_polls, 10.0),
            "share_of_core_in_empty_polls": rounded(self.empty_cycles / tsc_hz, 1e4),
        })
    }

    /// Cells of a line for people.
    pub fn cells(&self, tsc_hz: f64) -> Vec<String> {
        let visible = |text: &str| text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        let one = |value: Option<f64>| value.map_or("-".to_owned(), |v| format!("{v:.1}"));
        let share = |cycles: f64| format!("{:.1} %", cycles / tsc_hz * 100.0);
        vec![
            visible(&self.element),
            visible(&self.class),
            format!("{:.0}", self.calls),
            format!("{:.0}", self.packets),
            one(self.packets_per_call()),
            one(self.cycles_per_packet()),
            share(self.cycles),
            format!("{:.0}", self.empty_polls),
            share(self.empty_cycles),
        ]
    }

    fn packets_per_call(&self) -> Option<f64> {
        (self.calls > 0.0).then(|| self.packets / self.calls)
    }

    fn cycles_per_packet(&self) -> Option<f64> {
        (self.packets > 0.0).then(|| self.cycles / self.packets)
    }
}

/// Headings of [`Rate::cells`].
pub const HEADINGS: [&str; 9] = [
    "element",
    "class",
    "calls/s",
    "packets/s",
    "packets/call",
    "cycles/packet",
    "core",
    "empty polls/s",
    "core",
];

#[cfg(test)]
mod tests {
    use super::*;

    fn row(element: &str, calls: u64, packets: u64, cycles: u64, empty: (u64, u64)) -> Value {
        json!({ "element": element, "class": "C", "calls": calls, "packets": packets, "cycles": cycles,
                "empty_polls": empty.0, "empty_poll_cycles": empty.1 })
    }

    fn look(runtime: Vec<Value>, rx: u64, lost: u64) -> Look {
        let interfaces = vec![json!({ "rx_packets": rx, "tx_packets": rx / 2 })];
        Look { runtime, interfaces, drops: vec![json!({ "packets": lost })] }
    }

    #[test]
    fn what_happened_in_between_by_the_second() {
        let before = look(vec![row("a", 10, 640, 1000, (5, 50)), row("b", 1, 1, 1, (0, 0))], 100, 3);
        let now = look(
            vec![
                row("a", 30, 1920, 21_000, (9, 90)),
                row("b", 5, 9, 61_001, (0, 0)),
                row("new", 0, 0, 0, (2, 4)),
            ],
            300,
            13,
        );
        let rates = rates(&before, &now, Duration::from_secs(2));
        let names: Vec<&str> = rates.iter().map(|rate| rate.element.as_str()).collect();
        assert_eq!(names, ["b", "a", "new"], "the busiest first");
        let a = &rates[1];
        assert_eq!((a.calls, a.packets, a.cycles), (10.0, 640.0, 10_000.0));
        assert_eq!((a.empty_polls, a.empty_cycles), (2.0, 20.0));
        let want = ["a", "C", "10", "640", "64.0", "15.6", "10.0 %", "2", "0.0 %"];
        assert_eq!(a.cells(100_000.0), want);
        assert_eq!(rates[2].cells(100_000.0)[4..6], ["-", "-"]);
        let json = a.json(100_000.0);
        assert_eq!((&json["share_of_core"], &json["packets_per_call"]), (&json!(0.1), &json!(64.0)));
        assert_eq!(rates[2].json(100_000.0)["cycles_per_packet"], Value::Null);
        let totals = totals(&before, &now, Duration::from_secs(2));
        assert_eq!(totals, Totals { received: 100.0, sent: 50.0, lost: 5.0 });
    }

    #[test]
    fn a_router_that_started_anew_did_nothing_less_than_nothing() {
        let before = look(vec![row("a", 10, 10, 10, (0, 0))], 100, 3);
        let now = look(vec![row("a", 1, 1, 1, (0, 0))], 1, 0);
        let rates = rates(&before, &now, Duration::from_secs(1));
        assert_eq!((rates[0].calls, rates[0].cycles), (0.0, 0.0));
        assert_eq!(totals(&before, &now, Duration::ZERO), Totals::default());
    }
}
