//! `IPFilter`: a firewall: the first rule whose pattern a packet matches says what becomes of it.
//!
//! # Arguments
//! Rules `ACTION PATTERN`:
//! - `allow PATTERN`: the packet leaves by output 0;
//! - `deny PATTERN`, `drop PATTERN`: it is lost;
//! - `N PATTERN`: it leaves by output N.
//!
//! Patterns are those of `IPClassifier`. A packet that matches no rule is lost.
//!
//! # Ports
//! One push input, one or more push outputs. The IP header is at the network header mark, or at the start of the packet
//! if there is none.
//!
//! # Handlers
//! | name | | |
//! |---|---|---|
//! | `program` | r | the tests that are made of the rules |
//!
//! # Losses
//! - `denied`: a rule says so.
//! - `no_match`: no rule matches.
//!
//! # Example
//! ```click
//! FromDump(in.pcap, FORCE_IP true)
//!     -> f :: IPFilter(deny src port 1027, allow src net 10.0.0.0/24 and dst port domain, deny all)
//!     -> c :: Counter -> Discard;
//! // c.count = 9
//! // f.drops = 1
//! ```

use super::filter::{Program, Rule, View, parse};
use super::ip_classifier::{NONE, warn_unreachable};
use graph::{
    Args, Class, ConfigErrors, Configure, Cx, Element, Handlers, LocalCx, Loss, Out, Span, Spec, Text, Way,
};
use packet::Batch;
use std::sync::Arc;

const DENIED: Loss = Loss(0);
const NO_MATCH: Loss = Loss(1);
/// The result of a packet that is denied.
const DENY: u16 = u16::MAX - 1;

/// See the module.
#[derive(Debug)]
pub struct IpFilter {
    program: Program,
}

/// One worker's part of [`IpFilter`].
#[derive(Debug)]
pub struct LocalIpFilter {
    shared: Arc<IpFilter>,
}

/// Reads one rule.
fn rule(text: &Text, outputs: usize) -> Result<Rule, (String, Span)> {
    let end = text.text.find(|c: char| c.is_ascii_whitespace()).unwrap_or(text.text.len());
    let action = text.text.get(..end).unwrap_or_default();
    let output = |n: &str| n.parse().ok().filter(|n: &u16| *n < DENY);
    let result = match action {
        "allow" => 0,
        "deny" | "drop" => DENY,
        n => output(n).ok_or_else(|| {
            (format!("'{n}' is no action: allow, deny, drop or an output"), text.span_of(0..end))
        })?,
    };
    if result != DENY && usize::from(result) >= outputs {
        return Err((format!("there is no output {result}"), text.span_of(0..end)));
    }
    let pattern = text.slice(end..text.text.len());
    Ok((parse(&pattern)?, result))
}

impl Class for IpFilter {
    const SPEC: Spec = Spec { losses: &["denied", "no_match"], ..Spec::new("IPFilter", "1/1-", "h/h") };
    type Local = LocalIpFilter;

    fn configure(args: &mut Args, cx: &Configure<'_>) -> Result<IpFilter, ConfigErrors> {
        let mut rules: Vec<Rule> = Vec::new();
        for (i, text) in args.all().iter().enumerate() {
            match rule(text, cx.outputs) {
                Ok(rule) => rules.push(rule),
                Err((message, span)) => args.error_at(span, format!("rule {i}: {message}")),
            }
        }
        args.finish()?;
        warn_unreachable(args, &rules);
        Ok(IpFilter { program: Program::new(&rules, NONE) })
    }

    fn local(self: &Arc<Self>, _: &LocalCx) -> LocalIpFilter {
        LocalIpFilter { shared: self.clone() }
    }

    fn handlers(h: &mut Handlers<IpFilter>) {
        h.read("program", |f| {
            f.program.text(|r| match r {
                NONE => "no match".to_owned(),
                DENY => "deny".to_owned(),
                0 => "allow".to_owned(),
                output => format!("[{output}]"),
            })
        });
    }
}

impl Element for LocalIpFilter {
    fn push(&mut self, _: usize, batch: Batch, _: &Cx<'_>, out: &mut Out<'_>) {
        let program = &self.shared.program;
        out.split(batch, |packet| match program.run(&View::of(packet)) {
            NONE => Way::Lost(NO_MATCH),
            DENY => Way::Lost(DENIED),
            output => Way::Port(usize::from(output)),
        });
    }
}
