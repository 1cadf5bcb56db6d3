//! Where `conf/ip-router.click` differs from Linux, and why.

use lab::differential::Foreseen;

/// All of them; the first that matches counts.
pub const LIST: &[Foreseen] = &[];
