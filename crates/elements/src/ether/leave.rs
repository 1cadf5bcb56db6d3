//! By which outputs the packets of a batch leave.

/// The outputs of the packets of a batch: the bits that all have, and those that any has.
#[derive(Clone, Copy)]
pub(super) struct Outputs {
    all: u16,
    any: u16,
}

impl Outputs {
    pub const NONE: Outputs = Outputs { all: u16::MAX, any: 0 };

    #[inline(always)]
    pub fn and(self, output: u16) -> Outputs {
        Outputs { all: self.all & output, any: self.any | output }
    }

    /// The output, if there is but one.
    #[inline(always)]
    fn only(self) -> Option<u16> {
        (self.all == self.any).then_some(self.any)
    }
}

/// How packets leave that have been rewritten.
#[derive(Clone, Copy)]
pub(super) enum Leave {
    /// All by this output.
    By(u16),
    /// By several outputs, or perhaps by one; of unusual packets it is not written down by which.
    Apart { unusual: bool },
}

/// What became of packets that are not usual, if there were some.
pub(super) struct Others {
    /// Of those that go on.
    pub outputs: Outputs,
    /// There were some.
    pub some: bool,
}

impl Others {
    pub const NONE: Others = Others { outputs: Outputs::NONE, some: false };

    /// How all leave, these and the usual ones.
    #[inline(always)]
    pub fn beside(&self, usual: Outputs) -> Leave {
        let Outputs { all, any } = self.outputs;
        let outputs = Outputs { all: usual.all & all, any: usual.any | any };
        outputs.only().map_or(Leave::Apart { unusual: self.some }, Leave::By)
    }
}
