//! What the lab asks of a router.

use std::collections::BTreeMap;

use crate::Result;
use crate::checks::Check;

/// A running router in a [`crate::topology::Topology`]. Dropping it ends it.
pub trait Router {
    /// What it is, for headings.
    fn title(&self) -> &str;

    /// Its counters as a table, if it has any to show.
    fn live_table(&mut self) -> Result<Option<String>>;

    /// Packets lost so far, by `element.reason`, if it counts them.
    fn losses(&self) -> Result<Option<BTreeMap<String, u64>>> {
        Ok(None)
    }

    /// Ends it in order, and says what was found then: exit code, buffers missing.
    fn stop(&mut self) -> Result<Vec<Check>>;
}
