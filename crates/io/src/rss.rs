//! Receive-side scaling: what a device hashes to choose a packet's receive queue, with which key, and over which queues.

use std::fmt::{self, Display, Formatter, Write};

/// The words for what may be hashed; bit i of [`RssFields`] is the i-th.
const WORDS: [&str; 13] = [
    "ip", "tcp", "udp", "sctp", "tunnel", "inner", "ethernet", "vlan", "mpls", "gtp", "ipsec", "l2tp",
    "pppoe",
];
/// The key length of drivers that do not tell theirs.
const USUAL_KEY: u8 = 40;

/// A set of what may be hashed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RssFields(u32);

impl RssFields {
    /// Nothing: no RSS.
    pub const NONE: RssFields = RssFields(0);
    /// What tells flows apart: addresses, and ports where there are any.
    pub const FLOW: RssFields = RssFields(0b1111);
    /// Everything, as far as a device offers it.
    pub const ALL: RssFields = RssFields((1 << WORDS.len()) - 1);

    /// All words that there are.
    pub fn known() -> impl Iterator<Item = &'static str> {
        WORDS.into_iter()
    }

    /// What a word stands for.
    pub fn of(word: &str) -> Option<RssFields> {
        WORDS.iter().position(|known| *known == word).map(|bit| RssFields(1 << bit))
    }

    /// From bits in the order of [`RssFields::known`]; others are ignored.
    pub fn from_bits(bits: u32) -> RssFields {
        RssFields(bits & RssFields::ALL.0)
    }

    /// Bits in the order of [`RssFields::known`].
    pub fn bits(self) -> u32 {
        self.0
    }

    /// True if nothing is hashed.
    pub fn is_none(self) -> bool {
        self.0 == 0
    }

    /// What is in one of them.
    #[must_use]
    pub fn or(self, other: RssFields) -> RssFields {
        RssFields(self.0 | other.0)
    }

    /// What is in both.
    #[must_use]
    pub fn and(self, other: RssFields) -> RssFields {
        RssFields(self.0 & other.0)
    }

    /// What is in this one only.
    #[must_use]
    pub fn without(self, other: RssFields) -> RssFields {
        RssFields(self.0 & !other.0)
    }
}

impl Display for RssFields {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let words = WORDS.iter().enumerate().filter(|(bit, _)| self.0 & 1 << bit != 0);
        let words: Vec<&str> = words.map(|(_, word)| *word).collect();
        f.write_str(if words.is_empty() { "none" } else { "" })?;
        f.write_str(&words.join(" "))
    }
}

/// With what is hashed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RssKey {
    /// The driver's own.
    Default,
    /// Bytes 0x6d 0x5a over and over: a Toeplitz hash is the same in both directions of a flow then, because addresses and
    /// ports change places by multiples of 16 bits (Woo and Park, "Scalable TCP Session Monitoring with Symmetric
    /// Receive-side Scaling", 2012).
    Symmetric,
    /// These bytes.
    Bytes(RssKeyBytes),
}

/// The bytes of a key.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct RssKeyBytes {
    bytes: [u8; RssKeyBytes::MOST],
    len: u8,
}

impl RssKeyBytes {
    /// The longest key; devices have 40 to 52 bytes.
    pub const MOST: usize = 64;

    /// A key; `None` if it is empty or too long.
    pub fn new(key: &[u8]) -> Option<RssKeyBytes> {
        let mut bytes = [0; RssKeyBytes::MOST];
        bytes.get_mut(..key.len())?.copy_from_slice(key);
        let len = u8::try_from(key.len()).ok()?;
        (len > 0).then_some(RssKeyBytes { bytes, len })
    }

    /// As a slice.
    pub fn as_slice(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.len)).unwrap_or(&[])
    }
}

impl fmt::Debug for RssKeyBytes {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(&hex(self.as_slice()))
    }
}

/// What a configuration wants of a device's RSS; what it does not say is as usual.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rss {
    /// What is hashed. Usual: [`RssFields::FLOW`], as far as the device offers it.
    pub fields: Option<RssFields>,
    /// With what. Usual: the driver's key.
    pub key: Option<RssKey>,
    /// Over how many queues, from the first on. Usual: all that are set up.
    pub queues: Option<u16>,
}

/// What of a device's RSS cannot be had: the argument that asks for it, and why not.
pub type RssRefusal = (&'static str, String);

impl Rss {
    /// Nothing is said.
    pub const UNSAID: Rss = Rss { fields: None, key: None, queues: None };

    /// Both wishes together; where both say something, this one holds.
    #[must_use]
    pub fn and(self, other: Rss) -> Rss {
        Rss {
            fields: self.fields.or(other.fields),
            key: self.key.or(other.key),
            queues: self.queues.or(other.queues),
        }
    }

    /// The argument about which two wishes disagree.
    pub fn conflict(self, other: Rss) -> Option<&'static str> {
        fn differ<T: PartialEq>(a: Option<T>, b: Option<T>) -> bool {
            a.zip(b).is_some_and(|(a, b)| a != b)
        }
        [
            ("RSS", differ(self.fields, other.fields)),
            ("RSS_KEY", differ(self.key, other.key)),
            ("RSS_QUEUES", differ(self.queues, other.queues)),
        ]
        .into_iter()
        .find_map(|(name, differ)| differ.then_some(name))
    }

    /// Whether a device takes the key and the number of queues. One that has no RSS is asked for neither.
    ///
    /// # Errors
    /// The argument that it does not take.
    pub fn check(self, offer: RssOffer) -> Result<(), RssRefusal> {
        if !offer.is_some() {
            return Ok(());
        }
        if let Some(RssKey::Bytes(key)) = self.key
            && key.len != offer.key_len()
        {
            let has = key.len;
            return Err(("RSS_KEY", format!("the device takes {} bytes, not {has}", offer.key_len())));
        }
        match self.queues {
            Some(_) if offer.table == 0 => {
                Err(("RSS_QUEUES", "the device has no redirection table that can be written".to_owned()))
            }
            Some(n) if n > offer.table => {
                Err(("RSS_QUEUES", format!("the device's redirection table has {} entries", offer.table)))
            }
            _ => Ok(()),
        }
    }

    /// Fields that are asked for by name and that the device does not hash.
    pub fn lacks(self, offer: RssOffer) -> RssFields {
        match self.fields {
            Some(fields) if fields != RssFields::ALL => fields.without(offer.fields),
            _ => RssFields::NONE,
        }
    }

    /// What the user should know of a device that has not all of it.
    pub fn warning(self, offer: RssOffer) -> Option<(&'static str, String)> {
        let said = [
            ("RSS", self.fields.is_some_and(|fields| !fields.is_none())),
            ("RSS_KEY", self.key.is_some_and(|key| key != RssKey::Default)),
            ("RSS_QUEUES", self.queues.is_some()),
        ];
        let first = said.into_iter().find_map(|(name, said)| said.then_some(name))?;
        if !offer.is_some() {
            return Some((first, "the device has no RSS: it has no effect here".to_owned()));
        }
        let lacks = self.lacks(offer);
        let text = || format!("the device does not hash {lacks}; it offers: {}", offer.fields);
        (!lacks.is_none()).then(|| ("RSS", text()))
    }

    /// What the device is to hash: what is wanted, as far as it is offered.
    pub fn hashes(self, offer: RssOffer) -> RssFields {
        self.fields.unwrap_or(RssFields::FLOW).and(offer.fields)
    }

    /// The key to set, for a device that offers this; `None` for the driver's.
    pub fn key_bytes(self, offer: RssOffer) -> Option<RssKeyBytes> {
        match self.key? {
            RssKey::Default => None,
            RssKey::Symmetric => RssKeyBytes::new(&symmetric(offer.key_len().into())),
            RssKey::Bytes(key) => Some(key),
        }
    }
}

fn symmetric(len: usize) -> Vec<u8> {
    [0x6d, 0x5a].into_iter().cycle().take(len).collect()
}

/// What RSS a device has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RssOffer {
    /// What it can hash; nothing: it has no RSS.
    pub fields: RssFields,
    /// Bytes of its key; 0 if its driver does not tell.
    pub key: u8,
    /// Entries of its redirection table; 0 if it has none that can be written.
    pub table: u16,
}

impl RssOffer {
    /// True if there is any.
    pub fn is_some(self) -> bool {
        !self.fields.is_none()
    }

    /// Bytes that a key must have.
    pub fn key_len(self) -> u8 {
        if self.key == 0 { USUAL_KEY } else { self.key }
    }
}

/// What RSS a device does; the text that it is written as has a line for each part.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RssState {
    /// What is hashed, by DPDK's names of kinds of packets; empty if the driver does not tell.
    pub hashes: Vec<&'static str>,
    /// The key; empty if it cannot be read.
    pub key: Vec<u8>,
    /// The queue of each entry of the redirection table; empty if it has none that can be read.
    pub table: Vec<u16>,
}

impl Display for RssState {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if self.hashes.is_empty() {
            return f.write_str("the driver does not tell\n");
        }
        let or_none = |text: String| if text.is_empty() { "none".to_owned() } else { text };
        let table: Vec<String> = self.table.iter().map(u16::to_string).collect();
        writeln!(f, "hashes: {}", self.hashes.join(" "))?;
        writeln!(f, "key: {}", or_none(hex(&self.key)))?;
        writeln!(f, "table: {}", or_none(table.join(" ")))
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests;
