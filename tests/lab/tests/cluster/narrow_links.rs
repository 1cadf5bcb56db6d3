//! Lines nearly as full as they may be where links are slow: what is not traffic takes a good part of them.

use std::thread;
use std::time::Duration;

use lab::Result;
use lab::cluster::{Probe, Seen, Stage};
use lab::netns;

use crate::alone;

/// Bytes of payload.
const LENGTH: usize = 1000;
/// Packets a second of the larger flows: 12 Mbit/s, more than a link of 11 carries.
const LARGE: u32 = 1400;
/// Of the smaller ones: 5 Mbit/s.
const SMALL: u32 = 580;

/// Each line carries a large flow and a small one both ways, 77 % of its rate. Of the large ones a part has to go by relays.
#[test]
fn lines_at_three_quarters_lose_nothing_on_slow_links() -> Result<()> {
    if netns::skipped() {
        return Ok(());
    }
    let _one = alone();
    for order in ["strict", "spray"] {
        let stage = Stage::new(&format!("line_rate = '22M'\nhello = '50ms'\norder = '{order}'\n"))?;
        stage.wait_for_all_pings()?;
        stage.wait_for_all_links()?;
        let mut probes = stage.probes(&[(0, 1), (1, 2), (2, 3), (3, 0)], LENGTH, LARGE)?;
        probes.extend(stage.probes(&[(0, 2), (1, 3), (2, 0), (3, 1)], LENGTH, SMALL)?);
        thread::sleep(Duration::from_secs(4));
        let seen = Probe::end(probes)?;
        let sum = |of: fn(&Seen) -> u64| -> u64 { seen.iter().map(of).sum() };
        println!("{order}: {seen:?}");
        assert_eq!(
            sum(|seen| seen.received),
            sum(|seen| seen.sent),
            "{order}\n{}",
            stage.typed(&["status"])?
        );
        assert_eq!(sum(|seen| seen.again), 0, "{order}");
        assert!(order != "strict" || sum(|seen| seen.late) == 0, "{seen:?}");
        stage.end()?;
    }
    Ok(())
}
