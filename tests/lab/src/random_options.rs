//! Random IPv4 options (RFC 791 §3.1), right and wrong ones.

use crate::rng::Rng;

const END: u8 = 0;
const NO_OPERATION: u8 = 1;
const RECORD_ROUTE: u8 = 7;
const TIMESTAMP: u8 = 68;
const LOOSE_SOURCE_ROUTE: u8 = 131;
const STRICT_SOURCE_ROUTE: u8 = 137;
const ROUTER_ALERT: u8 = 148;

/// At most 40 octets of options, and what is special about them.
pub fn options(rng: &mut Rng) -> (Vec<u8>, &'static str) {
    let (mut options, note) = match rng.within(1..=9) {
        1..=2 => (record_route(rng, RECORD_ROUTE), "record route"),
        3 => (timestamp(rng), "timestamp"),
        4 => {
            let kind = rng.pick(&[LOOSE_SOURCE_ROUTE, STRICT_SOURCE_ROUTE]);
            (record_route(rng, kind), "source route")
        }
        5 => (vec![NO_OPERATION; rng.within(1..=12) as usize], "no-operation options"),
        6 => (vec![ROUTER_ALERT, 4, 0, 0], "router alert"),
        7 => (unknown(rng), "unknown option"),
        8 => (end_first(rng), "octets behind end of options"),
        _ => (malformed(rng), "malformed option"),
    };
    if rng.chance(25) && options.len() < 36 {
        let lead = rng.within(1..=3) as usize;
        options.splice(0..0, vec![NO_OPERATION; lead]);
    }
    options.truncate(40);
    (options, note)
}

/// Length, pointer, and room for 1 to 8 addresses, some of them recorded already. The pointer may say full.
fn record_route(rng: &mut Rng, kind: u8) -> Vec<u8> {
    let room = rng.within(1..=8) as u8;
    let used = rng.within(0..=u32::from(room)) as u8;
    let mut option = vec![kind, 3 + 4 * room, 4 + 4 * used];
    for place in 0..room {
        option.extend(if place < used { [10, 0, 9, place] } else { [0; 4] });
    }
    option
}

/// Flag 0 (times only), 1 (addresses and times), or 3 (addresses given), with overflow counts up to 15.
fn timestamp(rng: &mut Rng) -> Vec<u8> {
    let flag = rng.pick(&[0, 0, 1, 1, 3, 2]);
    let entry = if flag == 0 { 4 } else { 8 };
    let room = rng.within(1..=if flag == 0 { 8 } else { 4 }) as u8;
    let used = rng.within(0..=u32::from(room)) as u8;
    let overflow = rng.pick(&[0, 0, 7, 15]);
    let mut option = vec![TIMESTAMP, 4 + entry * room, 5 + entry * used, (overflow << 4) | flag];
    for place in 0..room {
        if entry == 8 {
            // With flag 3 the addresses say who is asked: a router's own, or someone else's.
            option.extend([10, 0, rng.within(1..=4) as u8, 1]);
        }
        option.extend([0, 0, 0, place]);
    }
    option
}

fn unknown(rng: &mut Rng) -> Vec<u8> {
    let kind = rng.pick(&[30, 94, 158, 222, 25, 200]);
    let length = rng.within(2..=20) as u8;
    let mut option = vec![kind, length];
    option.extend(rng.octets(usize::from(length) - 2));
    option
}

fn end_first(rng: &mut Rng) -> Vec<u8> {
    let mut option = vec![END];
    let more = rng.within(1..=11) as usize;
    option.extend(rng.octets(more));
    option
}

fn malformed(rng: &mut Rng) -> Vec<u8> {
    match rng.within(1..=7) {
        // The length octet is missing, 0, 1, or reaches behind the header.
        1 => vec![NO_OPERATION, NO_OPERATION, NO_OPERATION, RECORD_ROUTE],
        2 => vec![RECORD_ROUTE, rng.pick(&[0, 1, 2]), 4, 0],
        3 => vec![rng.pick(&[RECORD_ROUTE, TIMESTAMP, 30]), rng.within(9..=255) as u8, 4, 0, 0, 0, 0, 0],
        // The pointer is below the first place, or not at the start of one.
        4 => vec![RECORD_ROUTE, 7, rng.within(0..=3) as u8, 0, 0, 0, 0],
        5 => vec![RECORD_ROUTE, 11, rng.pick(&[5, 6, 7, 9]), 0, 0, 0, 0, 0, 0, 0, 0],
        6 => vec![TIMESTAMP, 8, rng.pick(&[0, 1, 4, 6, 7]), rng.pick(&[0, 1]), 0, 0, 0, 0],
        // Twice the same.
        _ => vec![RECORD_ROUTE, 7, 4, 0, 0, 0, 0, RECORD_ROUTE, 7, 4, 0, 0, 0, 0],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_fit_a_header() {
        let mut rng = Rng::new(1);
        for _ in 0..10_000 {
            let (options, note) = options(&mut rng);
            assert!((1..=40).contains(&options.len()), "{note}: {options:?}");
        }
    }
}
