//! `ClusterWrap`: wraps frames that are to cross the cluster whole: for and from the Linux of the control node.
//!
//! At the control node they are frames that Linux sends on the twin of a line, and go to the node that has the line and out
//! by it. At the other nodes they are frames of a line that are for the router itself, and go to the control node and to the
//! line's twin. In front of each comes an Ethernet header of internal links, with an EtherType of its own
//! (`docs/cluster.md`). Which node is the control node says the `ClusterSwitch`, and that may change.
//!
//! # Arguments
//! - `SWITCH`: the node's `ClusterSwitch`.
//! - `LINE`: the number of the line in the whole cluster.
//!
//! # Ports
//! One input, one output, to the last input of the `ClusterSwitch`; push or pull.
//!
//! # Losses
//! - `no_room`: the buffer has no room for 14 bytes more.
//! - `not_control`: of the twin of another node's line, and this is not the control node (any more).
//!
//! # Example
//! ```click
//! switch :: ClusterSwitch(NODE 0, NODES 1, LINE_RATE 1Gbps);
//! Idle -> [0] switch[0] -> line :: Counter -> Discard;
//! InfiniteSource(LIMIT 2, STOP true) -> ClusterWrap(switch, LINE 0) -> c :: Counter -> [1] switch;
//! // line.byte_count = 128
//! // c.byte_count = 156
//! ```

use super::ClusterSwitch;
use cluster::header::{ETHERTYPE_WHOLE, LEN};
use graph::{
    Agnostic, Args, Class, ConfigErrors, Configure, Cx, Initialize, LocalCx, Loss, NodeId, Out, Simple, Span,
    Spec,
};
use packet::Batch;
use packet::wire::ethernet::HEADER_LEN;
use std::sync::{Arc, OnceLock};

const NO_ROOM: Loss = Loss(0);
const NOT_CONTROL: Loss = Loss(1);

/// See the module.
#[derive(Debug)]
pub struct ClusterWrap {
    switch: (NodeId, Span),
    line: (u32, Span),
    /// The node's `ClusterSwitch`.
    found: OnceLock<Arc<ClusterSwitch>>,
}

/// What comes in front of each frame.
type Front = [u8; HEADER_LEN];

/// One worker's part of [`ClusterWrap`].
#[derive(Debug)]
pub struct LocalClusterWrap {
    shared: Arc<ClusterWrap>,
    /// While this is the control node; none where frames of this line have no business then.
    front: Option<(u16, Option<Front>)>,
}

impl Class for ClusterWrap {
    const SPEC: Spec = Spec { losses: &["no_room", "not_control"], ..Spec::new("ClusterWrap", "1/1", "a/a") };
    type Local = Agnostic<LocalClusterWrap>;

    fn configure(args: &mut Args, cx: &Configure<'_>) -> Result<ClusterWrap, ConfigErrors> {
        let name: String = args.required("SWITCH");
        let switch = cx.element(&name);
        if switch.is_none() {
            args.error("SWITCH", format!("no element named '{name}'"));
        }
        let line = args.required_keyword("LINE");
        let spans = ["SWITCH", "LINE"].map(|name| args.span_of(name));
        args.finish()?;
        let switch = (switch.unwrap_or(NodeId::new(0)), spans[0]);
        Ok(ClusterWrap { switch, line: (line, spans[1]), found: OnceLock::new() })
    }

    fn initialize(&self, cx: &Initialize<'_>) -> Result<(), ConfigErrors> {
        let (node, span) = self.switch;
        let switch = cx.peer::<ClusterSwitch>(node);
        let switch = switch.ok_or_else(|| ConfigErrors::new(span, "SWITCH: not a ClusterSwitch"))?;
        let (line, span) = self.line;
        let header = switch.settings().whole(line, switch.control());
        if header.is_none_or(|header| header.encode().is_err()) {
            return Err(ConfigErrors::new(span, format!("LINE: the cluster has no line {line}")));
        }
        // Initialised once, before any packet comes.
        let _ = self.found.set(switch);
        Ok(())
    }

    fn local(self: &Arc<Self>, _: &LocalCx) -> Self::Local {
        Agnostic(LocalClusterWrap { shared: self.clone(), front: None })
    }
}

impl ClusterWrap {
    /// What comes in front of frames while `control` is the control node.
    fn front(&self, switch: &ClusterSwitch, control: u16) -> Option<Front> {
        let (line, settings) = (self.line.0, switch.settings());
        let (owner, _) = settings.line(line)?;
        if settings.me != control && settings.me != owner {
            return None;
        }
        let bytes = settings.whole(line, control)?.encode().ok()?;
        let mut front = [0; HEADER_LEN];
        front[..LEN].copy_from_slice(&bytes);
        front[LEN..].copy_from_slice(&ETHERTYPE_WHOLE.to_be_bytes());
        Some(front)
    }
}

impl LocalClusterWrap {
    fn front(&mut self) -> Option<Front> {
        let switch = self.shared.found.get()?;
        let control = switch.control();
        match self.front {
            Some((of, front)) if of == control => front,
            _ => {
                let front = self.shared.front(switch, control);
                self.front = Some((control, front));
                front
            }
        }
    }
}

impl Simple for LocalClusterWrap {
    fn act(&mut self, batch: &mut Batch, _: &Cx<'_>, out: &mut Out<'_>) {
        let front = self.front();
        let loss = if front.is_some() { NO_ROOM } else { NOT_CONTROL };
        batch.retain(
            |packet| {
                let Some(front) = front else { return false };
                let pushed = packet.push(HEADER_LEN);
                if let Some(head) = packet.data_mut().first_chunk_mut().filter(|_| pushed) {
                    *head = front;
                }
                pushed
            },
            |packet| out.lose(packet, loss),
        );
    }
}
