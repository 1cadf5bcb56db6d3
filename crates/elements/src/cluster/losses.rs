//! Why a `ClusterSwitch` loses packets.

use cluster::header::HeaderError;
use cluster::resequence::Reason;
use graph::Loss;

/// The names, in the order of the constants.
pub const NAMES: &[&str] = &[
    "unresolved",
    "no_line",
    "unreachable",
    "link_full",
    "short",
    "foreign",
    "version",
    "node",
    "port",
    "source",
    "worker",
    "own",
    "misrouted",
    "message",
    "relay_full",
    "link_down",
    "late",
    "duplicate",
    "out_of_window",
    "wrong_incarnation",
    "no_path",
    "stale",
    "line_full",
    "no_twin",
    "no_room",
    "news",
    "punt_share",
];

/// The next hop has no adjacency any more.
pub const UNRESOLVED: Loss = Loss(0);
/// No such line.
pub const NO_LINE: Loss = Loss(1);
/// No path to the output node.
pub const UNREACHABLE: Loss = Loss(2);
/// Too much waits for the link, at the input node.
pub const LINK_FULL: Loss = Loss(3);
const SHORT: Loss = Loss(4);
const FOREIGN: Loss = Loss(5);
const VERSION: Loss = Loss(6);
/// No such output node.
pub const NODE: Loss = Loss(7);
/// No such port.
pub const PORT: Loss = Loss(8);
const SOURCE: Loss = Loss(9);
const WORKER: Loss = Loss(10);
const OWN: Loss = Loss(11);
const MISROUTED: Loss = Loss(12);
/// Neither hello nor marker.
pub const MESSAGE: Loss = Loss(13);
/// Too much waits for the link, at a relay.
pub const RELAY_FULL: Loss = Loss(14);
/// The link went down while it waited.
pub const LINK_DOWN: Loss = Loss(15);
const LATE: Loss = Loss(16);
const DUPLICATE: Loss = Loss(17);
const OUT_OF_WINDOW: Loss = Loss(18);
/// From another life of the input node.
pub const WRONG_INCARNATION: Loss = Loss(19);
const NO_PATH: Loss = Loss(20);
/// The adjacency is not known here.
pub const STALE: Loss = Loss(21);
/// Too much waits for the line.
pub const LINE_FULL: Loss = Loss(22);
/// Nobody to hand the frame to.
pub const NO_TWIN: Loss = Loss(23);
/// The buffer has no room for tags.
pub const NO_ROOM: Loss = Loss(24);
/// What a hello says of far links is out of range.
pub const NEWS: Loss = Loss(25);
/// Frames for and from Linux take their share of the link already.
pub const PUNT_SHARE: Loss = Loss(26);

/// The loss of a frame with such a header.
#[cold]
pub fn of_header(error: HeaderError) -> Loss {
    match error {
        HeaderError::Short => SHORT,
        HeaderError::Version => VERSION,
        HeaderError::Node => NODE,
        HeaderError::Port => PORT,
        HeaderError::Source => SOURCE,
        HeaderError::Worker => WORKER,
        HeaderError::Own => OWN,
        HeaderError::Misrouted => MISROUTED,
        _ => FOREIGN,
    }
}

/// The loss of a packet that a resequencer refused.
#[cold]
pub fn of_reason(reason: Reason) -> Loss {
    match reason {
        Reason::Late => LATE,
        Reason::Duplicate => DUPLICATE,
        Reason::WrongIncarnation => WRONG_INCARNATION,
        Reason::NoPath => NO_PATH,
        _ => OUT_OF_WINDOW,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_have_the_names_that_the_crate_gives_them() {
        let name = |loss: Loss| NAMES[usize::from(loss.0)];
        for error in [
            HeaderError::Short,
            HeaderError::Foreign,
            HeaderError::Version,
            HeaderError::Node,
            HeaderError::Port,
            HeaderError::Source,
            HeaderError::Worker,
            HeaderError::Own,
            HeaderError::Misrouted,
        ] {
            assert_eq!(name(of_header(error)), error.to_string());
        }
        for reason in
            [Reason::Late, Reason::Duplicate, Reason::OutOfWindow, Reason::WrongIncarnation, Reason::NoPath]
        {
            assert_eq!(name(of_reason(reason)), reason.to_string());
        }
        let others = [UNRESOLVED, NO_LINE, UNREACHABLE, LINK_FULL, MESSAGE, RELAY_FULL, LINK_DOWN];
        let names = others.map(name);
        assert_eq!(
            names,
            ["unresolved", "no_line", "unreachable", "link_full", "message", "relay_full", "link_down"]
        );
        let last = [STALE, LINE_FULL, NO_TWIN, NO_ROOM, NEWS, PUNT_SHARE].map(name);
        assert_eq!(last, ["stale", "line_full", "no_twin", "no_room", "news", "punt_share"]);
    }
}
