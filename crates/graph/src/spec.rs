//! What a class says about itself: name, ports, push or pull, which input flows to which output, losses.

/// How an element's state relates to the workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Every worker has its own instance; they share nothing that is written.
    PerWorker,
    /// Instances of all workers use one table that is read without locks and changed by one writer.
    Shared,
    /// The element lives on one worker; others hand their packets over to it.
    Home,
}

/// When an element is configured and initialised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Information that others need (`StaticThreadSched`, `DPDKInfo`).
    Info,
    /// Everything else.
    Normal,
}

/// What a class says about itself, readable without running anything.
#[derive(Clone, Copy, Debug)]
pub struct Spec {
    /// The class name as users write it.
    pub name: &'static str,
    /// Port counts: `1/1`, `1-2/0`, `1/-`, `-/=` (`click/language.md` §1.8).
    pub ports: &'static str,
    /// Push `h`, pull `l`, agnostic `a`, for inputs and outputs; the last letter repeats.
    pub processing: &'static str,
    /// Flow code: which input goes to which output.
    pub flow: &'static str,
    /// Reasons for which the element loses packets, in snake case.
    pub losses: &'static [&'static str],
    /// How its state relates to the workers.
    pub state: State,
    /// When it is configured.
    pub phase: Phase,
    /// True if it reads or writes annotations in the packet's private area (paint, packet type, timestamp, …; the
    /// destination address does not count), so that receivers must clear them.
    pub annotations: bool,
}

impl Spec {
    /// A class without losses, per-worker state, flow code `x/x`.
    pub const fn new(name: &'static str, ports: &'static str, processing: &'static str) -> Spec {
        Spec {
            name,
            ports,
            processing,
            flow: "x/x",
            losses: &[],
            state: State::PerWorker,
            phase: Phase::Normal,
            annotations: false,
        }
    }
}

/// A range of port numbers that a class accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortRange {
    /// Fewest ports.
    pub min: usize,
    /// Most ports.
    pub max: usize,
}

/// Accepted port counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortCounts {
    /// Inputs.
    pub inputs: PortRange,
    /// Outputs; for `=` codes they depend on the number of inputs.
    pub outputs: OutputCount,
}

/// Accepted output counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputCount {
    /// A range.
    Range(PortRange),
    /// As many as inputs and this many more.
    AsInputs(usize),
}

impl PortCounts {
    /// Reads a port count code. Codes are constants of this program, so a malformed one counts as "any".
    pub fn parse(code: &str) -> PortCounts {
        let (inputs, outputs) = code.split_once('/').unwrap_or((code, code));
        let outputs = match outputs.strip_prefix('=') {
            Some(plus) => OutputCount::AsInputs(plus.len()),
            None => OutputCount::Range(range(outputs)),
        };
        PortCounts { inputs: range(inputs), outputs }
    }

    /// The outputs accepted with this many inputs.
    pub fn outputs_for(&self, inputs: usize) -> PortRange {
        match self.outputs {
            OutputCount::Range(r) => r,
            OutputCount::AsInputs(more) => PortRange { min: inputs + more, max: inputs + more },
        }
    }
}

fn range(text: &str) -> PortRange {
    let number = |t: &str, open: usize| t.parse().unwrap_or(open);
    match text.split_once('-') {
        Some((min, max)) => PortRange { min: number(min, 0), max: number(max, usize::MAX) },
        None => {
            let n = number(text, 0);
            PortRange { min: n, max: n }
        }
    }
}

/// Push, pull or not yet decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Processing {
    /// The upstream element hands packets over.
    Push,
    /// The downstream element asks for packets.
    Pull,
    /// Whatever the other end is.
    Agnostic,
}

/// The processing of port `port` by a code's side (`0` = inputs, `1` = outputs).
pub fn processing(code: &str, outputs: bool, port: usize) -> Processing {
    let (i, o) = code.split_once('/').unwrap_or((code, code));
    let side = if outputs { o } else { i };
    let letter = side.chars().nth(port).or_else(|| side.chars().last());
    match letter {
        Some('h') => Processing::Push,
        Some('l') => Processing::Pull,
        _ => Processing::Agnostic,
    }
}

/// True if packets of input `input` may leave by output `output`, by a flow code (`click/language.md` §1.8).
pub fn flows(code: &str, input: usize, output: usize) -> bool {
    let (i, o) = code.split_once('/').unwrap_or((code, code));
    let (i, o) = (flow_port(i, input), flow_port(o, output));
    match (i, o) {
        (Some(i), Some(o)) => o.meets(&i, input, output),
        _ => false,
    }
}

/// One port's part of a flow code: `x`, `#` (its own number) or a set `[xy]` / `[^x]`.
#[derive(Debug)]
struct FlowPort<'a> {
    letters: &'a str,
    negated: bool,
}

impl FlowPort<'_> {
    /// True if this output shares a letter with an input; `#` stands for the port's number on either side.
    fn meets(&self, input: &FlowPort<'_>, i: usize, o: usize) -> bool {
        let has =
            input.letters.chars().any(|letter| self.letters.contains(letter) && (letter != '#' || i == o));
        has != self.negated
    }
}

/// The part of port number `port`; the last one repeats.
fn flow_port(side: &str, port: usize) -> Option<FlowPort<'_>> {
    let mut rest = side;
    let mut part = None;
    for _ in 0..=port {
        if rest.is_empty() {
            break;
        }
        let (body, after) = match rest.strip_prefix('[') {
            Some(set) => set.split_once(']').unwrap_or((set, "")),
            None => rest.split_at(rest.chars().next().map_or(0, char::len_utf8)),
        };
        let (letters, negated) = body.strip_prefix('^').map_or((body, false), |b| (b, true));
        part = Some(FlowPort { letters, negated });
        rest = after;
    }
    part
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn port_codes() {
        let any = PortRange { min: 0, max: usize::MAX };
        assert_eq!(PortCounts::parse("1/1-2").outputs_for(1), PortRange { min: 1, max: 2 });
        assert_eq!(PortCounts::parse("1/-").outputs_for(1), any);
        assert_eq!(PortCounts::parse("2-/=").inputs, PortRange { min: 2, max: usize::MAX });
        assert_eq!(PortCounts::parse("2-/=+").outputs_for(3), PortRange { min: 4, max: 4 });
        assert_eq!(PortCounts::parse("3").outputs_for(3), PortRange { min: 3, max: 3 });
        assert_eq!(PortCounts::parse("1/-6").outputs_for(1), PortRange { min: 0, max: 6 });
    }

    #[test]
    fn processing_codes() {
        assert_eq!(processing("a/ah", true, 0), Processing::Agnostic);
        assert_eq!(processing("a/ah", true, 5), Processing::Push);
        assert_eq!(processing("h/lh", false, 0), Processing::Push);
        assert_eq!(processing("l", true, 0), Processing::Pull);
    }

    #[test]
    fn flow_codes() {
        assert!(flows("x/x", 3, 7));
        assert!(!flows("x/y", 0, 0));
        assert!(flows("#/#", 2, 2) && !flows("#/#", 2, 1));
        assert!(flows("#/[^#]", 2, 1) && !flows("#/[^#]", 2, 2));
        assert!(flows("xy/x", 0, 0) && !flows("xy/x", 1, 0));
        assert!(flows("[xy]/y", 0, 0));
    }
}
