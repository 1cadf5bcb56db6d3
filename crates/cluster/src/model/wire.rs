//! Links and lines of the model.

use std::collections::VecDeque;

use crate::fairness::Drr;
use crate::header::Phase;

use super::{Frame, Setup};

/// An internal link, in one direction.
#[derive(Debug)]
pub(super) struct Wire {
    pub to: u16,
    pub delay: u64,
    /// Bits per second.
    pub rate: u64,
    pub up: bool,
    pub is_busy: bool,
    /// Nothing arrives before what was sent before it.
    pub last_arrival: u64,
    /// First ways.
    first: VecDeque<(u32, u32)>,
    first_bytes: u32,
    limit: u32,
    /// Second ways, by input node.
    second: Drr<u32>,
}

impl Wire {
    pub fn new(setup: &Setup, to: u16) -> Wire {
        Wire {
            to,
            delay: setup.delay,
            rate: setup.link_rate,
            up: true,
            is_busy: false,
            last_arrival: 0,
            first: VecDeque::new(),
            first_bytes: 0,
            limit: setup.link_buffer,
            second: Drr::new(setup.topology.edge_nodes().into(), setup.link_buffer),
        }
    }

    /// Whether [`Wire::push`] would take it.
    pub fn admits(&self, frame: &Frame) -> bool {
        match frame.phase {
            Phase::ToRelay => frame.packet.len <= self.limit.saturating_sub(self.first_bytes),
            Phase::ToOutput => self.second.admits(frame.source.into(), frame.packet.len),
        }
    }

    pub fn push(&mut self, frame: &Frame, number: u32) -> bool {
        let len = frame.packet.len;
        match frame.phase {
            Phase::ToRelay if self.admits(frame) => {
                self.first.push_back((len, number));
                self.first_bytes += len;
                true
            }
            Phase::ToRelay => false,
            Phase::ToOutput => self.second.push(frame.source.into(), len, number).is_ok(),
        }
    }

    /// The frame that goes next, with its length.
    pub fn pop(&mut self) -> Option<(u32, u32)> {
        if let Some((len, number)) = self.first.pop_front() {
            self.first_bytes -= len;
            return Some((len, number));
        }
        self.second.pop().map(|(_, len, number)| (len, number))
    }

    pub fn drain(&mut self) -> impl Iterator<Item = u32> {
        self.first_bytes = 0;
        self.first.drain(..).map(|(_, number)| number).chain(self.second.drain())
    }
}

/// An external line.
#[derive(Debug)]
pub(super) struct Line {
    pub is_busy: bool,
    /// By input node.
    pub queue: Drr<u32>,
}

impl Line {
    pub fn new(setup: &Setup) -> Line {
        Line { is_busy: false, queue: Drr::new(setup.topology.edge_nodes().into(), setup.line_buffer) }
    }
}
