//! Why devices refuse packets for good.

use std::ops::{Index, IndexMut};

/// Why a transmit queue dropped a packet that the device would not take however often it was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The frame is longer than the device sends.
    Oversized,
    /// It is no frame that can be sent: shorter than an Ethernet header, for instance.
    BadFrame,
    /// The interface is down, or has no carrier.
    LinkDown,
    /// The device has gone: deleted, unplugged, closed by its other end.
    DeviceGone,
    /// There was no buffer for a copy that the device needs.
    NoBuffer,
    /// The device failed for another reason.
    TxError,
}

impl Refusal {
    /// All of them.
    pub const ALL: [Refusal; 6] = [
        Refusal::Oversized,
        Refusal::BadFrame,
        Refusal::LinkDown,
        Refusal::DeviceGone,
        Refusal::NoBuffer,
        Refusal::TxError,
    ];

    /// The name under which such packets are counted.
    pub const fn name(self) -> &'static str {
        match self {
            Refusal::Oversized => "oversized",
            Refusal::BadFrame => "bad_frame",
            Refusal::LinkDown => "link_down",
            Refusal::DeviceGone => "device_gone",
            Refusal::NoBuffer => "no_buffer",
            Refusal::TxError => "tx_error",
        }
    }

    /// True if the device will refuse every other packet, too, for the time being.
    pub const fn concerns_all(self) -> bool {
        matches!(self, Refusal::LinkDown | Refusal::DeviceGone)
    }
}

/// How many packets were refused for each reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Refusals([u64; Refusal::ALL.len()]);

impl Refusals {
    /// All together.
    pub fn sum(&self) -> u64 {
        self.0.iter().sum()
    }

    /// Each reason and its packets.
    pub fn iter(&self) -> impl Iterator<Item = (Refusal, u64)> {
        Refusal::ALL.into_iter().zip(self.0)
    }
}

impl Index<Refusal> for Refusals {
    type Output = u64;

    fn index(&self, why: Refusal) -> &u64 {
        &self.0[why as usize]
    }
}

impl IndexMut<Refusal> for Refusals {
    fn index_mut(&mut self, why: Refusal) -> &mut u64 {
        &mut self.0[why as usize]
    }
}
