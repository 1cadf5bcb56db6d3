//! `IPClassifier`: sends each IP packet to the output of the first pattern that it matches.
//!
//! # Arguments
//! One pattern per output, in tcpdump's manner:
//! - addresses: `[src|dst] host 10.0.0.1`, `net 10.0.0.0/8` or `net 10/8`, `net 10.0.0.0 mask 255.0.0.0`,
//!   `ether host 0:1b:21:3c:4d:5e`; `src or dst` (what is meant without a word) and `src and dst` as well;
//! - `[src|dst] [tcp|udp] port 80`, by name too (`www`); packets of TCP and UDP that are no later fragments;
//! - `ip proto tcp`, `tcp`, `udp`, `icmp`; `icmp type echo`; `tcp opt syn`, or just `syn`; `tcp win 0`;
//! - `ip vers`, `hl`, `tos`, `dscp`, `len`, `id`, `ttl` and a number; `ip frag`, `ip unfrag`, `ip ect`, `ip ce`;
//! - bytes: `ip[6:2]`, `transp[0:2]`, `tcp[13]`, `udp[4:2]`, `icmp[0]` and a number;
//! - `-`, `any`, `all`, `true`: all packets; `false`: none.
//!
//! A number may have a relation before it (`==`, `=`, `!=`, `<`, `>`, `<=`, `>=`) and before that a mask:
//! `tcp[13] & 0x12 == 2`, `ip ttl < 5`. Patterns are joined by `and` (`&&`), `or` (`||`), `not` (`!`), `? :` and
//! parentheses. A bare value has the meaning of the one before: `src port 80 or 81`. `port != 5` are packets that have
//! ports, none of which is 5.
//!
//! # Ports
//! One push input; as many push outputs as patterns. The IP header is at the network header mark, or at the start of
//! the packet if there is none.
//!
//! # Handlers
//! | name | | |
//! |---|---|---|
//! | `program` | r | the tests that are made of the patterns |
//!
//! # Losses
//! - `no_match`: no pattern matches.
//!
//! # Example
//! ```click
//! FromDump(in.pcap, FORCE_IP true) -> c :: IPClassifier(src udp port 1024 or 1025, udp dst port domain, -);
//! c[0] -> a :: Counter -> Discard;
//! c[1] -> b :: Counter -> Discard;
//! c[2] -> d :: Counter -> Discard;
//! // a.count = 2
//! // b.count = 8
//! // d.count = 0
//! ```

use super::filter::{Program, Rule, View, parse};
use graph::{Args, Class, ConfigErrors, Configure, Cx, Element, Handlers, LocalCx, Loss, Out, Spec, Way};
use packet::Batch;
use std::sync::Arc;

const NO_MATCH: Loss = Loss(0);
/// The result of a packet that matches no pattern.
pub(super) const NONE: u16 = u16::MAX;

/// See the module.
#[derive(Debug)]
pub struct IpClassifier {
    program: Program,
}

/// One worker's part of [`IpClassifier`].
#[derive(Debug)]
pub struct LocalIpClassifier {
    shared: Arc<IpClassifier>,
}

/// Warns of rules that no packet can come to. Rules have their own number as result here.
pub(super) fn warn_unreachable(args: &mut Args, rules: &[Rule]) {
    let numbered: Vec<Rule> = (0..).zip(rules).map(|(i, (expr, _))| (expr.clone(), i)).collect();
    let program = Program::new(&numbered, NONE);
    for (_, i) in &numbered {
        if !program.may_reach(*i) {
            args.warn("PATTERN", format!("pattern {i} matches no packets"));
        }
    }
}

impl Class for IpClassifier {
    const SPEC: Spec = Spec { losses: &["no_match"], ..Spec::new("IPClassifier", "1/-", "h/h") };
    type Local = LocalIpClassifier;

    fn configure(args: &mut Args, cx: &Configure<'_>) -> Result<IpClassifier, ConfigErrors> {
        let patterns = args.all();
        if patterns.len() != cx.outputs {
            let text = format!("{} patterns for {} outputs", patterns.len(), cx.outputs);
            args.error("PATTERN", text);
        }
        let mut rules: Vec<Rule> = Vec::new();
        for (i, pattern) in (0..NONE).zip(&patterns) {
            match parse(pattern) {
                Ok(expr) => rules.push((expr, i)),
                Err((message, span)) => args.error_at(span, format!("pattern {i}: {message}")),
            }
        }
        args.finish()?;
        warn_unreachable(args, &rules);
        Ok(IpClassifier { program: Program::new(&rules, NONE) })
    }

    fn local(self: &Arc<Self>, _: &LocalCx) -> LocalIpClassifier {
        LocalIpClassifier { shared: self.clone() }
    }

    fn handlers(h: &mut Handlers<IpClassifier>) {
        h.read("program", |c| {
            c.program.text(|r| if r == NONE { "no match".to_owned() } else { format!("[{r}]") })
        });
    }
}

impl Element for LocalIpClassifier {
    fn push(&mut self, _: usize, batch: Batch, _: &Cx<'_>, out: &mut Out<'_>) {
        let program = &self.shared.program;
        out.split(batch, |packet| match program.run(&View::of(packet)) {
            NONE => Way::Lost(NO_MATCH),
            output => Way::Port(usize::from(output)),
        });
    }
}
