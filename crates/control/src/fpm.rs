//! FRR's forwarding plane manager protocol, as `dplane_fpm_nl` speaks it: netlink messages behind a header of four bytes,
//! on a TCP connection that zebra opens.
//!
//! A frame: version (1), type (1 = netlink), length of the frame with its header (big-endian), then one netlink message
//! or several. There is no mark for the end of the first lot after a connection was made: it has ended when nothing has
//! come for a while ([`Session::is_quiet`]).

use crate::kernel::Model;
use crate::netlink::request::Topic;
use crate::netlink::wire::Messages;
use crate::netlink::{Message, decode};
use std::time::Duration;

/// Where zebra expects the server unless told otherwise.
pub const PORT: u16 = 2620;
/// Bytes of a frame's header.
const HEADER_LEN: usize = 4;

/// What is on the connection is not FPM.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FpmError {
    /// The version is not 1.
    #[error("FPM version {0}: expected 1")]
    Version(u8),
    /// The type is not netlink.
    #[error("FPM message type {0}: expected 1, netlink (zebra -M dplane_fpm_nl)")]
    Type(u8),
    /// The frame is shorter than its header.
    #[error("FPM frame of {0} bytes")]
    Length(u16),
}

/// Cuts a stream of bytes into frames.
#[derive(Debug, Default)]
pub struct Frames {
    /// Bytes that came and are not yet a frame: at most one frame, as long as whoever feeds takes all frames out.
    waiting: Vec<u8>,
}

impl Frames {
    /// Takes `bytes` from the stream and hands the contents of each complete frame to `take`.
    ///
    /// # Errors
    /// If it is not FPM; the stream is then of no more use.
    pub fn feed(&mut self, bytes: &[u8], mut take: impl FnMut(&[u8])) -> Result<(), FpmError> {
        self.waiting.extend_from_slice(bytes);
        let mut rest = &self.waiting[..];
        while let Some(&[version, kind, high, low]) = rest.first_chunk::<HEADER_LEN>() {
            if version != 1 {
                return Err(FpmError::Version(version));
            }
            if kind != 1 {
                return Err(FpmError::Type(kind));
            }
            let len = u16::from_be_bytes([high, low]);
            if usize::from(len) < HEADER_LEN {
                return Err(FpmError::Length(len));
            }
            let Some(frame) = rest.get(..usize::from(len)) else { break };
            take(&frame[HEADER_LEN..]);
            rest = &rest[usize::from(len)..];
        }
        let left = rest.len();
        self.waiting.drain(..self.waiting.len() - left);
        Ok(())
    }
}

/// One connection of zebra: fills the routes and next hops of a model. Times are since any fixed moment.
#[derive(Debug)]
pub struct Session {
    frames: Frames,
    heard: Duration,
    swept: bool,
    /// Netlink messages that came.
    pub messages: u64,
}

impl Session {
    /// How long nothing may have come before the first lot counts as complete.
    pub const QUIET: Duration = Duration::from_secs(3);

    /// A connection was made: zebra will send everything, and what it does not send is to go.
    pub fn new(model: &mut Model, now: Duration) -> Session {
        for topic in [Topic::NextHops, Topic::Routes4, Topic::Routes6] {
            model.mark(topic);
        }
        Session { frames: Frames::default(), heard: now, swept: false, messages: 0 }
    }

    /// Takes bytes that came.
    ///
    /// # Errors
    /// If it is not FPM: the connection is to be closed.
    pub fn feed(&mut self, bytes: &[u8], model: &mut Model, now: Duration) -> Result<(), FpmError> {
        self.heard = now;
        let messages = &mut self.messages;
        self.frames.feed(bytes, |frame| {
            for raw in Messages::new(frame).map_while(Result::ok) {
                *messages += 1;
                match decode(&raw) {
                    // FRR sends the one route that it has chosen.
                    Message::Route4(action, route) => model.routes4.set(action, route),
                    Message::Route6(action, route) => model.routes6.set(action, route),
                    message @ Message::NextHop(..) => model.apply(message, false),
                    _ => {}
                }
            }
        })
    }

    /// True if nothing has come for a while since the connection was made and [`sweep`](Self::sweep) was not called.
    pub fn is_quiet(&self, now: Duration) -> bool {
        !self.swept && now.saturating_sub(self.heard) >= Self::QUIET
    }

    /// True if the first lot is complete.
    pub fn is_synced(&self) -> bool {
        self.swept
    }

    /// The first lot is complete: what was not in it goes. Returns how many things did.
    pub fn sweep(&mut self, model: &mut Model) -> usize {
        self.swept = true;
        // Routes before what they refer to.
        [Topic::Routes4, Topic::Routes6, Topic::NextHops].map(|topic| model.sweep(topic)).iter().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netlink::numbers::{RTM_DELROUTE, RTM_NEWNEXTHOP, RTM_NEWROUTE};
    use crate::netlink::wire::Builder;
    use crate::netlink::{Hops, ObjectTarget};

    fn frame(message: &[u8]) -> Vec<u8> {
        let len = u16::try_from(message.len() + HEADER_LEN).unwrap().to_be_bytes();
        [&[1, 1, len[0], len[1]], message].concat()
    }

    /// An IPv4 route of BGP over object 7, as FRR 8.4 writes it.
    fn route(kind: u16, third: u8) -> Vec<u8> {
        // No type in a removal.
        let body = [2, 24, 0, 0, 254, 186, 0, u8::from(kind == RTM_NEWROUTE), 0, 0, 0, 0];
        let message = Builder::new(kind, 0x501, 0, &body)
            .with(1, &[10, 0, third, 0])
            .with(6, &20u32.to_ne_bytes())
            .with(30, &7u32.to_ne_bytes());
        frame(&message.bytes())
    }

    fn object() -> Vec<u8> {
        let message = Builder::new(RTM_NEWNEXTHOP, 0x501, 0, &[2, 0, 11, 0, 0, 0, 0, 0])
            .with(1, &7u32.to_ne_bytes())
            .with(6, &[192, 0, 2, 1])
            .with(5, &3u32.to_ne_bytes());
        frame(&message.bytes())
    }

    #[test]
    fn a_new_connection_sweeps_what_the_last_one_left() {
        let (mut model, second) = (Model::default(), Duration::from_secs(1));
        let mut session = Session::new(&mut model, Duration::ZERO);
        let stream =
            [object(), route(RTM_NEWROUTE, 1), route(RTM_NEWROUTE, 2), route(RTM_NEWROUTE, 3)].concat();
        // However the stream is cut.
        for piece in stream.chunks(7) {
            session.feed(piece, &mut model, second).unwrap();
        }
        assert_eq!(
            (session.messages, session.is_quiet(second * 3), session.is_quiet(second * 4)),
            (4, false, true)
        );
        assert_eq!((session.sweep(&mut model), session.is_quiet(second * 9)), (0, false));
        session.feed(&route(RTM_DELROUTE, 3), &mut model, second * 5).unwrap();
        let prefixes = |model: &Model| {
            let mut all: Vec<_> = model.routes4.table(254).map(|(prefix, _)| prefix.to_string()).collect();
            all.sort();
            all
        };
        assert_eq!(prefixes(&model), ["10.0.1.0/24", "10.0.2.0/24"]);
        let mut session = Session::new(&mut model, second * 10);
        session.feed(&[object(), route(RTM_NEWROUTE, 2)].concat(), &mut model, second * 11).unwrap();
        assert_eq!(prefixes(&model), ["10.0.1.0/24", "10.0.2.0/24"]);
        assert_eq!(session.sweep(&mut model), 1);
        assert_eq!(prefixes(&model), ["10.0.2.0/24"]);
        assert!(matches!(model.next_hops.get(7), Some(ObjectTarget::Hop(hop)) if hop.link == 3));
        let prefix = "10.0.2.0/24".parse().unwrap();
        assert!(
            model.routes4.get(254, prefix).all(|entry| entry.hops == Hops::Object(7) && entry.metric == 20)
        );
    }

    #[test]
    fn what_is_not_fpm_is_refused() {
        for (bytes, error) in [
            ([2, 1, 0, 8], FpmError::Version(2)),
            ([1, 2, 0, 8], FpmError::Type(2)),
            ([1, 1, 0, 3], FpmError::Length(3)),
        ] {
            assert_eq!(Frames::default().feed(&bytes, |_| {}), Err(error));
        }
    }
}
