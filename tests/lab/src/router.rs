//! What the lab asks of a router.

use crate::Result;
use crate::checks::Check;

/// A running router in a [`crate::topology::Topology`]. Dropping it ends it.
pub trait Router {
    /// What it is, for headings.
    fn title(&self) -> &str;

    /// Its counters as a table, if it has any to show.
    fn live_table(&mut self) -> Result<Option<String>>;

    /// Ends it in order, and says what was found then: exit code, buffers missing.
    fn stop(&mut self) -> Result<Vec<Check>>;
}
