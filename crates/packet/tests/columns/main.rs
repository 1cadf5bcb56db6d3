//! What is noted once for a batch is what each packet has, whoever looks, and however the batch was changed in between.

#![allow(unsafe_code)]

mod front;
mod look;
mod model;

use look::{Facts, Find, HEADERS, all, destination, facts, find, found, received, tag, write_destinations};
use packet::lanes::four;
use packet::{Batch, Columns, Packet, Pieces, Pool};

#[test]
fn each_packet_gets_what_was_found_of_all() {
    let pool = Pool::heap(16, 256);
    for alone in [&[][..], &[1], &[4, 5]] {
        let mut batch = received(&pool, 0..7);
        find(&mut batch, alone, &[]);
        let destinations: Vec<_> = (0..7).map(destination).collect();
        assert_eq!(batch.destinations(), destinations);
        assert_eq!(all(&batch), (0..7).map(|tag| found(tag, 0)).collect::<Vec<_>>());
        assert_eq!(batch.destinations(), destinations);
        assert_eq!([0, 6, 7, 999].map(|place| batch.length_of(place)), [60, 60, 0, 0]);
        batch.free();
        assert_eq!((Batch::empty().destinations().len(), Batch::empty().length_of(0)), (0, 0));
    }
    assert_eq!(pool.in_use(), 0);
}

#[test]
fn some_are_looked_at_together_and_the_rest_one_by_one() {
    let pool = Pool::heap(16, 256);
    let mut batch = received(&pool, 0..11);
    let (mut fours, mut ones, mut again) = (Vec::new(), Vec::new(), Vec::new());
    four(Find {
        batch: &mut batch,
        many: |tags: &[u8], to: &mut [u32]| {
            fours.push(tags.to_vec());
            write_destinations(tags, to);
            (tags[0] == 0).then_some(46)
        },
        one: |p: &mut Packet, _| {
            ones.push(tag(p));
            (!tag(p).is_multiple_of(5)).then(|| destination(tag(p)))
        },
        second: |p: Packet| {
            again.push(tag(&p));
            p.free();
            None
        },
    });
    assert_eq!(fours, [[0, 1, 2, 3], [4, 5, 6, 7]]);
    assert_eq!(ones, [4, 5, 6, 7, 8, 9, 10]);
    assert_eq!(again, [5, 10]);
    assert_eq!(all(&batch), [0, 1, 2, 3, 4, 6, 7, 8, 9].map(|tag| found(tag, 0)));
    batch.free();
    assert_eq!(pool.in_use(), 0);
}

#[test]
fn what_is_behind_the_packet_is_cut_off() {
    let pool = Pool::heap(16, 256);
    let mut batch = received(&pool, 0..10);
    four(Find {
        batch: &mut batch,
        many: |tags: &[u8], to: &mut [u32]| {
            write_destinations(tags, to);
            Some(if tags[0] == 0 { u32::MAX } else { 30 })
        },
        one: |p: &mut Packet, _| {
            p.truncate(38);
            Some(destination(tag(p)))
        },
        second: Some,
    });
    let lengths: Vec<_> = batch.iter().map(Packet::len).collect();
    assert_eq!(lengths, [60, 60, 60, 60, 44, 44, 44, 44, 38, 38]);
    assert_eq!(all(&batch), (0..10).map(|tag| found(tag, 0)).collect::<Vec<_>>());
    batch.free();
    assert_eq!(pool.in_use(), 0);
}

#[test]
fn short_packets_are_looked_at_one_by_one() {
    let pool = Pool::heap(16, 256);
    let mut batch = received(&pool, 0..8);
    batch.as_mut_slice()[2].truncate(33);
    batch.as_mut_slice()[6].truncate(34);
    let (mut together, mut ones) = (Vec::new(), Vec::new());
    four(Find {
        batch: &mut batch,
        many: |tags: &[u8], to: &mut [u32]| {
            together.extend_from_slice(tags);
            write_destinations(tags, to);
            Some(20)
        },
        one: |p: &mut Packet, _| {
            ones.push((tag(p), p.len()));
            Some(destination(tag(p)))
        },
        second: Some,
    });
    assert_eq!(together, [4, 5, 6, 7]);
    assert_eq!(ones, [(0, 60), (1, 60), (2, 33), (3, 60)]);
    assert_eq!(batch.iter().map(Packet::len).collect::<Vec<_>>(), [60, 60, 33, 60, 34, 34, 34, 34]);
    batch.free();
    assert_eq!(pool.in_use(), 0);
}

#[test]
fn plain_ttls_are_noted_of_headers_that_were_found_until_somebody_may_change_them() {
    let pool = Pool::heap(16, 256);
    let noted = || {
        let mut batch = received(&pool, 0..5);
        find(&mut batch, &[], &[]);
        assert!(!batch.has_plain_ttls());
        batch.note_plain_ttls();
        batch.columns().next_hops.fill(1);
        assert!(batch.has_plain_ttls() && batch.next_hops() == [1; 5] && batch.longest() == 60);
        batch
    };
    let changes: [fn(&mut Batch); 6] = [
        |batch| batch.as_mut_slice()[0].data_mut()[22] = 1,
        |batch| batch.with_next_hops().0[0].data_mut()[22] = 1,
        |batch| batch.sift_routed::<14>(|_, _| Some(()), Some),
        |batch| batch.pop().into_iter().for_each(Packet::free),
        |batch| find(batch, &[], &[]),
        |batch| batch.find_each_header(HEADERS, |_, _| Some(1), Some),
    ];
    for change in changes {
        let mut batch = noted();
        change(&mut batch);
        assert!(!batch.has_plain_ttls());
        batch.free();
    }
    let mut bins = [Batch::empty(), Batch::empty()];
    noted().deal(&[0, 1, 0, 1, 1], &mut bins, |bin| bin);
    assert!(bins.iter().all(Batch::has_plain_ttls));
    bins.into_iter().for_each(Batch::free);
    let mut nothing_found = received(&pool, 0..5);
    nothing_found.note_plain_ttls();
    assert!(!nothing_found.has_plain_ttls());
    nothing_found.free();
    assert_eq!(pool.in_use(), 0);
}

#[test]
fn frames_are_noted_until_somebody_may_change_them_or_their_next_hops() {
    let pool = Pool::heap(16, 256);
    let noted = || {
        let mut batch = received(&pool, 0..5);
        find(&mut batch, &[], &[]);
        batch.columns().next_hops.fill(1);
        batch.note_framed(7);
        assert_eq!(batch.framed_by(), Some(7));
        batch.sift_routed::<14>(|_, _| Some(()), Some);
        assert_eq!(batch.framed_by(), None);
        batch.note_framed(8);
        assert!(batch.framed_by() == Some(8) && batch.next_hops() == [1; 5] && batch.longest() == 60);
        let mut lengths = Vec::new();
        batch.heads::<61>(|head, length| lengths.extend(head.is_none().then_some(length)));
        assert_eq!((batch.framed_by(), lengths), (Some(8), vec![60; 5]));
        batch
    };
    let changes: [fn(&mut Batch); 11] = [
        |batch| batch.as_mut_slice()[0].data_mut()[2] = 1,
        |batch| batch.with_next_hops().0[0].data_mut()[2] = 1,
        |batch| batch.columns().next_hops.fill(2),
        |batch| batch.sift_network::<20>(|_| true, Some),
        |batch| batch.change_front::<14>(|front| front[5] = 1, Packet::free),
        |batch| batch.strip(14, Packet::free),
        |batch| batch.put_link(b"destinatsource", Packet::free),
        |batch| batch.pop().into_iter().for_each(Packet::free),
        |batch| batch.split_off(2).free(),
        |batch| find(batch, &[], &[]),
        |batch| batch.find_each_header(HEADERS, |_, _| Some(1), Some),
    ];
    for change in changes {
        let mut batch = noted();
        change(&mut batch);
        assert_eq!(batch.framed_by(), None);
        batch.free();
    }
    for bins in 2..4 {
        let mut bins: Vec<_> = (0..bins).map(|_| Batch::empty()).collect();
        noted().deal(&[0, 1, 0, 1, 1], &mut bins, |bin| bin);
        assert!(bins.iter().filter(|bin| !bin.is_empty()).all(|bin| bin.framed_by() == Some(8)));
        bins.into_iter().for_each(Batch::free);
    }
    let mut forgotten = noted();
    forgotten.forget_columns();
    assert_eq!(forgotten.framed_by(), None);
    let facts: Vec<_> = (0..5).map(|tag| (tag, [Some(0), Some(14), Some(34)], [0, 0])).collect();
    assert_eq!(all(&forgotten), facts);
    forgotten.free();
    let mut looked_at = noted();
    assert_eq!(all(&looked_at).len(), 5);
    looked_at.note_framed(9);
    assert_eq!((looked_at.framed_by(), Batch::empty().framed_by()), (None, None));
    looked_at.free();
    assert_eq!(pool.in_use(), 0);
}

#[test]
fn network_headers_are_changed_wherever_they_were_found() {
    let pool = Pool::heap(16, 256);
    for look_first in [false, true] {
        let mut batch = received(&pool, 0..6);
        find(&mut batch, &[], &[]);
        if look_first {
            assert_eq!(all(&batch)[0], found(0, 0));
        }
        let mut second = Vec::new();
        batch.sift_network::<20>(
            |head| {
                let goes_on = !head[0].is_multiple_of(4);
                head[1] = if goes_on { 0xdd } else { head[1] };
                goes_on
            },
            |p| {
                second.push(facts(&p));
                if tag(&p) == 0 {
                    return Some(p);
                }
                p.free();
                None
            },
        );
        assert_eq!(second, [found(0, 0), found(4, 0)]);
        assert_eq!(all(&batch), [0, 1, 2, 3, 5].map(|tag| found(tag, 0)));
        let changed: Vec<_> = batch.iter().map(|p| p.data()[15]).collect();
        assert_eq!(changed, [0, 0xdd, 0xdd, 0xdd, 0xdd]);
        batch.free();
    }
    assert_eq!(pool.in_use(), 0);
}

#[test]
fn fronts_are_changed_and_what_is_too_short_goes() {
    let pool = Pool::heap(16, 256);
    let mut batch = received(&pool, 0..5);
    let cut = |p: &mut Packet, _| {
        p.truncate(if tag(p) == 3 { 13 } else { 60 });
        Some(destination(tag(p)))
    };
    batch.find_each_header(HEADERS, cut, Some);
    batch.note_plain_ttls();
    let mut short = Vec::new();
    batch.change_front(
        |front: &mut [u8; 14]| front[5] = 0xdd,
        |p| {
            short.push(facts(&p));
            p.free();
        },
    );
    assert!(!batch.has_plain_ttls());
    // Its headers cannot be seen.
    assert_eq!(short, [(3, [Some(0), None, None], [0, 1003])]);
    assert_eq!(all(&batch), [0, 1, 2, 4].map(|tag| found(tag, 0)));
    assert!(batch.iter().all(|p| p.data()[..6] == [tag(p), tag(p), tag(p), tag(p), tag(p), 0xdd]));
    batch.free();
    assert_eq!(pool.in_use(), 0);
}

#[test]
fn unusual_packets_keep_their_place_and_get_nothing() {
    let pool = Pool::heap(16, 256);
    let mut batch = received(&pool, 0..7);
    find(&mut batch, &[], &[0, 3, 6]);
    let unusual = |tag| (tag, [Some(0), None, None], [0, 5]);
    let want = [unusual(0), found(1, 0), found(2, 0), unusual(3), found(4, 0), found(5, 0), unusual(6)];
    assert_eq!(all(&batch), want);
    batch.free();
    assert_eq!(pool.in_use(), 0);
}

#[test]
fn columns_are_those_of_the_packets_and_what_stands_in_them_counts() {
    let pool = Pool::heap(16, 256);
    for find_first in [true, false] {
        let mut batch = received(&pool, 0..5);
        if find_first {
            find(&mut batch, &[], &[]);
        } else {
            batch.iter_mut().for_each(|p| p.set_dst_ip(1000 + u32::from(p.data()[0])));
        }
        let Columns { destinations, next_hops } = batch.columns();
        assert_eq!(destinations, [1000, 1001, 1002, 1003, 1004]);
        next_hops.copy_from_slice(&[9, 8, 7, 6, 5]);
        destinations[2] = 1;
        let got = all(&batch).into_iter().map(|(_, _, numbers)| numbers).collect::<Vec<_>>();
        assert_eq!(got, [[9, 1000], [8, 1001], [7, 1], [6, 1003], [5, 1004]]);
        batch.free();
    }
    let mut empty = Batch::empty();
    assert_eq!((empty.columns().next_hops.len(), empty.longest()), (0, 0));
    assert!(empty.is_empty() && pool.in_use() == 0);
}

/// What `sift_routed` shows at first: tags and next hops; then again: tags.
fn sift(batch: &mut Batch, refused: &[u8]) -> (Vec<(u8, u32)>, Vec<Facts>) {
    let (mut first, mut second) = (Vec::new(), Vec::new());
    batch.sift_routed::<14>(
        |p, next_hop| {
            let tag = p.data()[0];
            first.push((tag, next_hop));
            (next_hop < 100 && !refused.contains(&tag)).then(|| p.data_mut()[1] = 0xee)
        },
        |p| {
            second.push(facts(&p));
            p.free();
            None
        },
    );
    (first, second)
}

#[test]
fn one_next_hop_of_all_is_known_as_that() {
    let pool = Pool::heap(64, 256);
    assert_eq!(Batch::empty().only_next_hop::<14>(), None);
    for len in [1, 15, 16, 17, 40] {
        let mut batch = received(&pool, 0..len);
        batch.columns().next_hops.fill(7);
        assert_eq!(batch.only_next_hop::<14>(), None, "nobody has found the headers");
        find(&mut batch, &[], &[]);
        assert_eq!(batch.only_next_hop::<14>(), None, "nobody has looked any up");
        batch.columns().next_hops.fill(7);
        assert_eq!((batch.only_next_hop::<14>(), batch.only_next_hop::<18>()), (Some(7), None));
        for place in 0..usize::from(len) {
            batch.columns().next_hops[place] = 6;
            assert_eq!(
                batch.only_next_hop::<14>(),
                (len == 1).then_some(6),
                "another one at {place} of {len}"
            );
            batch.columns().next_hops[place] = 7;
        }
        batch.as_mut_slice()[0].set_next_hop(9);
        assert_eq!(batch.only_next_hop::<14>(), None, "somebody may have changed one");
        batch.free();
    }
    assert_eq!(pool.in_use(), 0);
}

#[test]
fn next_hops_are_looked_through_once() {
    let pool = Pool::heap(64, 256);
    let routed = |hops: &[u32]| {
        let mut batch = received(&pool, 0..hops.len() as u8);
        find(&mut batch, &[], &[]);
        batch.columns().next_hops.copy_from_slice(hops);
        let are_routed = batch.are_routed();
        (batch, are_routed)
    };
    for (hops, all, only) in [
        (&[7; 5][..], true, Some(7)),
        (&[7, 7, 7, 8], true, None),
        (&[0, 7], false, None),
        (&[0; 17], false, Some(0)),
        (&[u32::MAX; 3], true, Some(u32::MAX)),
    ] {
        let (batch, are_routed) = routed(hops);
        assert_eq!((are_routed, batch.only_next_hop::<14>()), (all, only), "{hops:?}");
        let mut pieces = Pieces::from(batch);
        let batch = pieces.take(1);
        assert_eq!(batch.only_next_hop::<14>(), Some(hops[0]), "a part of {hops:?}");
        batch.free();
        pieces.take_all().free();
    }
    // Parts that have one each have two together.
    let (mut batch, _) = routed(&[7; 5]);
    let (mut other, _) = routed(&[8; 3]);
    batch.append(&mut other);
    assert_eq!((batch.only_next_hop::<14>(), batch.next_hops()), (None, &[7, 7, 7, 7, 7, 8, 8, 8][..]));
    batch.columns().next_hops.fill(9);
    assert_eq!(batch.only_next_hop::<14>(), Some(9), "another lookup");
    batch.free();
    assert!(Batch::empty().are_routed());
    assert_eq!(pool.in_use(), 0);
}

#[test]
fn routed_packets_are_seen_with_their_next_hops() {
    let pool = Pool::heap(16, 256);
    let mut batch = received(&pool, 0..6);
    find(&mut batch, &[], &[]);
    batch.columns().next_hops.copy_from_slice(&[10, 11, 12, 13, 14, 15]);
    assert!(batch.have_network_at(14) && !batch.have_network_at(18));
    assert_eq!(sift(&mut batch, &[]), ((0..6).map(|tag| (tag, 10 + u32::from(tag))).collect(), vec![]));
    assert_eq!(sift(&mut batch, &[1, 4]).1, [found(1, 11), found(4, 14)]);
    assert_eq!(all(&batch), [0, 2, 3, 5].map(|tag| found(tag, 10 + u32::from(tag))));
    assert!(batch.iter().all(|p| p.data()[1] == 0xee));
    // Now the packets have it themselves, but one has its header elsewhere.
    batch.as_mut_slice()[2].set_network_offset(18);
    assert!(!batch.have_network_at(14));
    let (first, second) = sift(&mut batch, &[]);
    assert_eq!(first, [(0, 10), (2, 12), (3, u32::MAX), (5, 15)]);
    assert_eq!(second, [(3, [Some(0), Some(18), Some(34)], [13, 1003])]);
    batch.free();
    assert_eq!(pool.in_use(), 0);
}

#[test]
fn what_was_not_sent_keeps_its_part() {
    let pool = Pool::heap(16, 256);
    let mut batch = received(&pool, 0..6);
    find(&mut batch, &[], &[]);
    batch.columns().next_hops.copy_from_slice(&[10, 11, 12, 13, 14, 15]);
    // SAFETY: the first two packets are taken and given back to the pool.
    let (sent, rest) = unsafe {
        batch.send_raw(|raw| {
            raw[..2].iter().for_each(|raw| Packet::from_raw(*raw).free());
            2
        })
    };
    assert_eq!(sent, 2);
    assert_eq!(all(&rest), [2, 3, 4, 5].map(|tag| found(tag, 10 + u32::from(tag))));
    rest.free();
    assert_eq!(pool.in_use(), 0);
}
