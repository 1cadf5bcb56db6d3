//! What is taken off the front of packets, and put there.

use crate::look::{HEADERS, all, destination, facts, find, found, received, tag};
use packet::{Batch, Packet, Pool};

#[test]
fn what_was_stripped_is_gone_for_all_that_look_at_packets() {
    let pool = Pool::heap(16, 256);
    let looks: [fn(&mut Batch) -> usize; 9] = [
        |batch| batch.as_slice()[2].len(),
        |batch| (batch.bytes() / 5) as usize,
        |batch| batch.longest(),
        |batch| batch.length_of(2),
        |batch| batch.with_next_hops().0[2].len(),
        // SAFETY: the packets are the batch's, and live.
        |batch| usize::from(unsafe { batch.as_raw()[2].as_ref() }.data_len),
        |batch| {
            let mut lengths = Vec::new();
            batch.heads::<1>(|_, length| lengths.push(length));
            lengths[2]
        },
        |batch| {
            let mut lengths = Vec::new();
            let look = |p: &mut Packet, _| {
                lengths.push(p.len());
                Some(())
            };
            batch.sift_routed::<14>(look, Some);
            lengths[2]
        },
        |batch| {
            let all = std::mem::take(batch);
            // SAFETY: nothing is taken.
            let (_, rest) = unsafe {
                all.send_raw(|raw| {
                    assert!(raw.iter().all(|header| header.as_ref().pkt_len == 46));
                    0
                })
            };
            *batch = rest;
            batch.as_slice()[2].len()
        },
    ];
    for look in looks {
        let mut batch = received(&pool, 0..5);
        batch.strip(10, |_| panic!("all have as many"));
        batch.strip(4, |_| panic!("all have as many"));
        assert_eq!(look(&mut batch), 46);
        batch.free();
    }
    assert_eq!(pool.in_use(), 0);
}

#[test]
fn headers_take_the_place_of_what_was_stripped() {
    let pool = Pool::heap(16, 256);
    for (stripped, left) in [(14, 0), (18, 4), (10, 0)] {
        let batch = received(&pool, 0..5);
        let headroom = batch.as_slice()[0].headroom();
        batch.free();
        let mut batch = received(&pool, 0..5);
        batch.strip(stripped, |_| panic!("all have as many"));
        batch.put_link(b"destinatsource", |_| panic!("there is room"));
        for p in batch.iter() {
            assert_eq!((p.len(), p.headroom()), (74 - stripped, headroom + stripped - 14));
            assert_eq!((&p.data()[..14], p.data()[14]), (&b"destinatsource"[..], tag(p)));
            assert_eq!((p.mac_offset(), left), (Some(0), stripped.saturating_sub(14)));
        }
        batch.free();
    }
    assert_eq!(pool.in_use(), 0);
}

#[test]
fn link_headers_are_put_before_packets() {
    let pool = Pool::heap(16, 256);
    let header: [u8; 14] = *b"destinatsource";
    for (look_first, headroom) in [(false, 128), (true, 128), (false, 13)] {
        let mut batch = received(&pool, 0..5);
        batch.as_mut_slice()[3].push(128 - headroom);
        batch.as_mut_slice()[3].truncate(60);
        let moved = batch.as_slice()[3].headroom() != batch.as_slice()[0].headroom();
        assert_eq!(moved, headroom != 128);
        find(&mut batch, &[], &[]);
        if look_first {
            assert_eq!(all(&batch).len(), 5);
        }
        batch.put_link(&header, |_| panic!("there is room"));
        for (i, p) in batch.iter().enumerate() {
            let offsets = (p.mac_offset(), p.network_offset(), p.transport_offset());
            // What begins where the buffer does cannot be marked.
            let mac = (p.headroom() > 0).then_some(0);
            assert_eq!((p.len(), offsets), (74, (mac, Some(28), Some(48))), "{i}");
            assert_eq!(p.data()[..14], header);
        }
        batch.free();
    }
    let small = Pool::heap(2, 128 + 60);
    let mut batch: Batch = [60, 40].into_iter().filter_map(|len| small.packet(&[7; 60][..len])).collect();
    let full = &mut batch.as_mut_slice()[0];
    while full.push(1) {}
    let len = full.len();
    let mut refused = Vec::new();
    batch.put_link(&header, |p| {
        refused.push(p.len());
        p.free();
    });
    assert_eq!((refused, batch.len(), batch.as_slice()[0].len()), (vec![len], 1, 54));
    batch.free();
    assert_eq!((pool.in_use(), small.in_use()), (0, 0));
}

#[test]
fn what_is_too_short_to_be_stripped_goes_and_the_rest_keeps_its_marks() {
    let pool = Pool::heap(16, 256);
    let mut batch = received(&pool, 0..6);
    let cut = |p: &mut Packet, _| {
        p.truncate(if [2, 5].contains(&tag(p)) { 39 } else { 60 });
        Some(destination(tag(p)))
    };
    batch.find_each_header(HEADERS, cut, Some);
    let mut short = Vec::new();
    batch.strip(40, |p| {
        short.push((p.len(), facts(&p)));
        p.free();
    });
    assert_eq!(short, [2, 5].map(|tag| (39, found(tag, 0))));
    let hidden = |tag: u8| (tag, [None; 3], [0, destination(tag)]);
    assert_eq!(all(&batch), [0, 1, 3, 4].map(hidden));
    batch.iter_mut().for_each(|p| assert!(p.len() == 20 && p.push(40)));
    assert_eq!(all(&batch), [0, 1, 3, 4].map(|tag| found(tag, 0)));
    batch.free();
    assert_eq!(pool.in_use(), 0);
}
