//! `SetPacketType`: sets the packet type annotation.
//!
//! # Arguments
//! - `TYPE`: `HOST`, `BROADCAST`, `MULTICAST`, `OTHERHOST` or `OUTGOING`.
//!
//! # Ports
//! One input, one output; push or pull.
//!
//! # Example
//! ```click
//! InfiniteSource(LIMIT 3) -> SetPacketType(MULTICAST) -> d :: DropBroadcasts -> a :: Counter -> Discard;
//! d[1] -> b :: Counter -> Discard;
//! // b.count = 3
//! ```

use graph::{Agnostic, Args, Class, ConfigErrors, Configure, Cx, LocalCx, Out, Simple, Spec};
use lang::Text;
use lang::args::{ArgError, FromArg};
use packet::{Batch, PacketType};
use std::sync::Arc;

/// See the module.
#[derive(Debug)]
pub struct SetPacketType {
    packet_type: PacketType,
}

/// One worker's part of [`SetPacketType`].
#[derive(Debug)]
pub struct LocalSetPacketType {
    packet_type: PacketType,
}

/// A packet type by name.
struct Named(PacketType);

impl FromArg for Named {
    fn from_arg(arg: &Text) -> Result<Named, ArgError> {
        let packet_type = match arg.text.as_str() {
            "HOST" => PacketType::Host,
            "BROADCAST" => PacketType::Broadcast,
            "MULTICAST" => PacketType::Multicast,
            "OTHERHOST" => PacketType::OtherHost,
            "OUTGOING" => PacketType::Outgoing,
            _ => {
                let help = "`HOST`, `BROADCAST`, `MULTICAST`, `OTHERHOST` or `OUTGOING`";
                return Err(ArgError::parse().help(help));
            }
        };
        Ok(Named(packet_type))
    }

    fn placeholder() -> Named {
        Named(PacketType::Host)
    }
}

impl Class for SetPacketType {
    const SPEC: Spec = Spec { annotations: true, ..Spec::new("SetPacketType", "1/1", "a/a") };
    type Local = Agnostic<LocalSetPacketType>;

    fn configure(args: &mut Args, _: &Configure<'_>) -> Result<SetPacketType, ConfigErrors> {
        args.keywords(&["TYPE"]);
        let packet_type: Named = args.required("TYPE");
        args.finish()?;
        Ok(SetPacketType { packet_type: packet_type.0 })
    }

    fn local(self: &Arc<Self>, _: &LocalCx) -> Self::Local {
        Agnostic(LocalSetPacketType { packet_type: self.packet_type })
    }
}

impl Simple for LocalSetPacketType {
    fn act(&mut self, batch: &mut Batch, _: &Cx<'_>, _: &mut Out<'_>) {
        batch.iter_mut().for_each(|p| p.set_packet_type(self.packet_type));
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Frame, errors, through};

    #[test]
    fn types_by_name() {
        for (i, name) in ["HOST", "BROADCAST", "MULTICAST", "OTHERHOST", "OUTGOING"].iter().enumerate() {
            let frame = Frame { packet_type: 3, ..Frame::new(&[]) };
            assert_eq!(usize::from(through(&format!("SetPacketType({name})"), &[frame]).0[0].packet_type), i);
        }
        assert!(errors("Idle -> SetPacketType(x) -> Discard;").contains("TYPE: parse error"));
    }
}
