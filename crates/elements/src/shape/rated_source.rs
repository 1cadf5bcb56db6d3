//! `RatedSource`: sends copies of a packet at a rate.
//!
//! # Arguments
//! - `DATA`: the packet's bytes. Default: 64 bytes of text.
//! - `RATE`: packets a second. Default 10.
//! - `LIMIT`: number of packets to send; -1 = no limit. Default -1.
//! - `ACTIVE`: false = wait until told to begin. Default true.
//! - `LENGTH`: length of the packet in bytes; `DATA` is repeated or cut. Default: the length of `DATA`.
//! - `STOP`: true = stop the router after the last packet. Default false.
//!
//! # Ports
//! One output, push or pull. While all queues downstream are full it sleeps.
//!
//! # Handlers
//! | name | | |
//! |---|---|---|
//! | `count` | r | packets sent |
//! | `reset` | w | start from 0 again |
//! | `rate`, `limit`, `active` | rw | see the arguments |
//!
//! # Losses
//! - `no_buffer`: there was no buffer for a packet; it does not count as sent.
//!
//! # Example
//! ```click
//! s :: RatedSource(DATA "hello", RATE 100, LIMIT 30) -> c :: Counter -> Discard;
//! // s.count = 30
//! // c.byte_count = 150
//! ```

use super::source::{LocalSource, Source, source_handlers};
use crate::basic::{DEFAULT_DATA, with_length};
use graph::{Args, Class, ConfigErrors, Configure, Handlers, LocalCx, Spec, State};
use std::sync::Arc;

/// See the module.
#[derive(Debug)]
pub struct RatedSource(Arc<Source>);

impl AsRef<Source> for RatedSource {
    fn as_ref(&self) -> &Source {
        &self.0
    }
}

impl Class for RatedSource {
    const SPEC: Spec =
        Spec { losses: &["no_buffer"], state: State::Home, ..Spec::new("RatedSource", "0/1", "a/a") };
    type Local = LocalSource;

    fn configure(args: &mut Args, cx: &Configure<'_>) -> Result<RatedSource, ConfigErrors> {
        let data = args.optional("DATA", DEFAULT_DATA.to_vec());
        let rate = args.optional("RATE", 10);
        let limit = args.optional("LIMIT", -1);
        let active = args.optional("ACTIVE", true);
        let data = with_length(args, &data);
        let stop = args.keyword("STOP", false);
        args.finish()?;
        Ok(RatedSource(Arc::new(Source::new(data, rate, limit, active, stop, cx.burst))))
    }

    fn local(self: &Arc<Self>, cx: &LocalCx) -> LocalSource {
        LocalSource::new(&self.0, cx)
    }

    fn handlers(h: &mut Handlers<RatedSource>) {
        source_handlers(h);
    }
}
