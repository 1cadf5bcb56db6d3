//! What control node and nodes say to each other.

use super::wire::{Cursor, ProtocolError, Writer};

/// The version that is spoken here.
pub const VERSION: u8 = 3;
/// The oldest version that is understood here.
pub const OLDEST: u8 = 1;
/// Kinds from here on are left alone by whoever does not know them: what a later version may say to an earlier one.
pub const OPTIONAL: u8 = 0x80;
/// What a hello begins with.
const MAGIC: [u8; 4] = *b"RBCP";

const HELLO: u8 = 1;
const ACK: u8 = 2;
const TOLD: u8 = 3;
const WELCOME: u8 = 16;
const REFUSED: u8 = 17;
const TELL: u8 = 18;
const SNAPSHOT: u8 = 19;
const END: u8 = 20;
const ALIVE: u8 = 21;
const TELL_ALL: u8 = 22;
pub(super) const CHANGES: u8 = 32;
/// The first of those that may be left alone.
const REPORT: u8 = OPTIONAL;
const TERM: u8 = REPORT + 1;
const AFTER_TERM: u8 = TERM + 1;

/// A frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message<'a> {
    /// The node's first word.
    Hello(Hello<'a>),
    /// The node: all up to this position is in its tables. Also said when there is nothing new, to show that it lives.
    Ack(u64),
    /// The node: those were all my next hops.
    Told,
    /// The control node's answer to a hello.
    Welcome {
        /// The version that both will speak.
        version: u8,
        /// Which life of the control node's tables: positions and numbers mean something within one only.
        life: u64,
    },
    /// The control node's last word, and why.
    Refused(&'a str),
    /// The control node, before the welcome: its tables are new, what numbers do your next hops have, and your interfaces, if
    /// this version has any? 1 where it does not say.
    Tell(u8),
    /// The control side of one router, before the welcome: it has no tables, what is in yours? To be told in this version,
    /// which the router speaks, too; 1 where it does not say.
    TellAll(u8),
    /// The control node: from here to the end is all that there is.
    Snapshot,
    /// The control node: that was all, as it was at this position or before it with all that came since.
    End(u64),
    /// The control node lives, and has come to this position.
    Alive(u64),
    /// Changes of tables; see the module `change`.
    Changes(&'a [u8]),
    /// The control side of one router: how it gets on, as JSON.
    Report(&'a [u8]),
    /// The control node, before the welcome: it was elected for this term. A node: it follows the one of this term now.
    Term(u64),
    /// Something that a later version says.
    Unknown,
}

/// The node's first word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello<'a> {
    /// The oldest version that the node speaks.
    pub oldest: u8,
    /// The newest one.
    pub newest: u8,
    /// The life that its state is of; 0 if it has none.
    pub life: u64,
    /// How far it has come in that life.
    pub position: u64,
    /// Its name, which is also in its certificate.
    pub name: &'a str,
}

impl<'a> Message<'a> {
    /// The frame for the stream.
    pub fn encode(&self) -> Vec<u8> {
        let with = |kind, position: u64| {
            let mut writer = Writer::new(kind);
            writer.u64(position);
            writer
        };
        let writer = match self {
            Message::Hello(hello) => {
                let mut writer = Writer::new(HELLO);
                writer.bytes(&MAGIC).u8(hello.oldest).u8(hello.newest).u64(hello.life).u64(hello.position);
                writer.text(hello.name);
                writer
            }
            Message::Ack(position) => with(ACK, *position),
            Message::Told => Writer::new(TOLD),
            Message::Welcome { version, life } => {
                let mut writer = Writer::new(WELCOME);
                writer.u8(*version).u64(*life);
                writer
            }
            Message::Refused(why) => {
                let mut writer = Writer::new(REFUSED);
                writer.text(why);
                writer
            }
            Message::Tell(version) | Message::TellAll(version) => {
                let is_all = matches!(self, Message::TellAll(_));
                let mut writer = Writer::new(if is_all { TELL_ALL } else { TELL });
                writer.u8(*version);
                writer
            }
            Message::Snapshot => Writer::new(SNAPSHOT),
            Message::End(position) => with(END, *position),
            Message::Alive(position) => with(ALIVE, *position),
            Message::Changes(body) => {
                let mut writer = Writer::new(CHANGES);
                writer.bytes(body);
                writer
            }
            Message::Report(body) => {
                let mut writer = Writer::new(REPORT);
                writer.bytes(body);
                writer
            }
            Message::Term(term) => with(TERM, *term),
            Message::Unknown => Writer::new(u8::MAX),
        };
        writer.finish()
    }

    /// A frame that came. Later versions may add fields behind those known here.
    ///
    /// # Errors
    /// If it is none.
    pub fn decode(kind: u8, body: &'a [u8]) -> Result<Message<'a>, ProtocolError> {
        let cursor = &mut Cursor::new(body);
        let (message, name) = match kind {
            HELLO => (hello(cursor).map(Message::Hello), "a hello"),
            ACK => (cursor.u64().map(Message::Ack), "an acknowledgement"),
            TOLD => (Some(Message::Told), ""),
            WELCOME => (welcome(cursor), "a welcome"),
            REFUSED => (cursor.text().map(Message::Refused), "a refusal"),
            TELL => (Some(Message::Tell(cursor.u8().unwrap_or(1))), ""),
            TELL_ALL => (Some(Message::TellAll(cursor.u8().unwrap_or(1))), ""),
            SNAPSHOT => (Some(Message::Snapshot), ""),
            END => (cursor.u64().map(Message::End), "the end of a snapshot"),
            ALIVE => (cursor.u64().map(Message::Alive), "a sign of life"),
            CHANGES => (Some(Message::Changes(body)), ""),
            REPORT => (Some(Message::Report(body)), ""),
            TERM => (cursor.u64().map(Message::Term), "a term"),
            AFTER_TERM.. => (Some(Message::Unknown), ""),
            _ => return Err(ProtocolError::Kind(kind)),
        };
        message.ok_or(ProtocolError::Malformed(name))
    }
}

fn hello<'a>(cursor: &mut Cursor<'a>) -> Option<Hello<'a>> {
    if cursor.array()? != MAGIC {
        return None;
    }
    let (oldest, newest) = (cursor.u8()?, cursor.u8()?);
    Some(Hello { oldest, newest, life: cursor.u64()?, position: cursor.u64()?, name: cursor.text()? })
}

fn welcome<'a>(cursor: &mut Cursor<'_>) -> Option<Message<'a>> {
    Some(Message::Welcome { version: cursor.u8()?, life: cursor.u64()? })
}

/// The version to speak with someone who speaks all from `theirs.0` to `theirs.1`, if one of `ours`: the newest of both.
pub fn common_version(ours: (u8, u8), theirs: (u8, u8)) -> Option<u8> {
    let newest = ours.1.min(theirs.1);
    (newest >= ours.0 && newest >= theirs.0).then_some(newest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn decode(frame: &[u8]) -> Result<Message<'_>, ProtocolError> {
        Message::decode(frame[4], &frame[5..])
    }

    #[test]
    fn messages_come_as_they_went() {
        let hello = Hello { oldest: 1, newest: 2, life: 77, position: u64::MAX, name: "node-b" };
        let all = [
            Message::Hello(hello),
            Message::Ack(5),
            Message::Told,
            Message::Welcome { version: 1, life: 8 },
            Message::Refused("no"),
            Message::Tell(2),
            Message::Snapshot,
            Message::End(1 << 40),
            Message::Alive(9),
            Message::TellAll(2),
            Message::Changes(&[1, 2, 3]),
            Message::Report(b"{}"),
            Message::Term(7),
            Message::Unknown,
        ];
        for message in all {
            let frame = message.encode();
            assert_eq!(decode(&frame), Ok(message.clone()));
            // Cut short it is none, unless it has no fields; with more behind it it is the same.
            let is_whole = [CHANGES, REPORT].contains(&frame[4]);
            let fields = frame.len() > 5 && !is_whole && ![TELL, TELL_ALL].contains(&frame[4]);
            assert_eq!(decode(&frame[..frame.len().saturating_sub(1).max(5)]).is_err(), fields);
            if !is_whole {
                assert_eq!(decode(&[&frame[..], &[1, 2]].concat()), Ok(message));
            }
        }
        assert_eq!(Message::decode(TELL_ALL, &[]), Ok(Message::TellAll(1)));
        assert_eq!(Message::decode(TELL, &[]), Ok(Message::Tell(1)));
        assert_eq!(Message::decode(HELLO, b"RBCQ\x01\x01"), Err(ProtocolError::Malformed("a hello")));
        assert_eq!(Message::decode(OPTIONAL - 1, &[]), Err(ProtocolError::Kind(0x7f)));
    }

    #[test]
    fn neighbouring_versions_understand_each_other() {
        for version in 1..200u8 {
            let speaks = |version: u8| (version.saturating_sub(1).max(1), version);
            assert_eq!(common_version(speaks(version), speaks(version)), Some(version));
            assert_eq!(common_version(speaks(version + 1), speaks(version)), Some(version));
            assert_eq!(common_version(speaks(version), speaks(version + 1)), Some(version));
            assert_eq!(common_version(speaks(version), (version + 2, version + 3)), None);
        }
        assert_eq!(common_version((1, 2), (5, 1)), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_message_or_none(kind: u8, body: Vec<u8>) {
            if let Ok(message) = Message::decode(kind, &body) {
                let frame = message.encode();
                prop_assert_eq!(decode(&frame), Ok(message));
            }
        }
    }
}
