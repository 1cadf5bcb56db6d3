//! `CheckIPHeader2`: as `CheckIPHeader`, but does not look at the checksum.
//!
//! # Arguments
//! As of `CheckIPHeader`; `CHECKSUM` is false by default.
//!
//! # Ports
//! One input; good packets leave by output 0, push or pull. Bad packets leave by push output 1 if that is connected.
//!
//! # Handlers
//! | name | | |
//! |---|---|---|
//! | `count` | r | good packets |
//! | `drops` | r | bad packets |
//! | `drop_details` | r | bad packets by reason, a line each |
//! | `reset_counts` | w | all start from 0 again |
//!
//! # Losses
//! As of `CheckIPHeader`: `short`, `bad_version`, `bad_header_length`, `bad_length`, `bad_checksum` (only with
//! `CHECKSUM true`), `bad_source`, `bad_destination`.
//!
//! # Example
//! ```click
//! InfiniteSource(DATA \<45000014 00000000 40110000 0a000001 0a000002>, LIMIT 3)
//!   -> i :: CheckIPHeader2 -> c :: Counter -> Discard;
//! // c.count = 3
//! // i.drops = 0
//! ```

use super::check_ip_header::CheckIPHeader;

/// See the module.
pub type CheckIPHeader2 = CheckIPHeader<false>;
