//! Packets, pools and batches, as elements use them.

use packet::{Batch, Packet, PacketType, Pool, anno};

fn packet(pool: &Pool, bytes: &[u8]) -> Packet {
    pool.packet(bytes).unwrap_or_else(|| panic!("no buffer for {} bytes", bytes.len()))
}

#[test]
fn bytes_come_and_go_at_both_ends() {
    let pool = Pool::heap(4, 256);
    let mut p = packet(&pool, b"abcdef");
    assert!(p.pull(2));
    assert_eq!(p.data(), b"cdef");
    assert!(p.push(2));
    assert_eq!(p.data(), b"abcdef", "unstripping restores what was there");
    assert!(!p.pull(7));
    assert!(p.append(b"gh"));
    p.truncate(7);
    assert_eq!(p.data(), b"abcdefg");
    assert!(!p.put(1000));
    p.free();
    assert_eq!(pool.in_use(), 0);
}

#[test]
fn push_moves_data_and_marks_when_headroom_is_short() {
    let pool = Pool::heap(4, 256);
    let mut p = packet(&pool, b"network");
    p.set_network_offset(0);
    assert_eq!(p.headroom(), 128);
    assert!(p.push(200));
    assert_eq!(p.len(), 207);
    assert_eq!(&p.data()[200..], b"network");
    assert_eq!(p.network(), Some(&b"network"[..]));
    assert!(!p.push(1000));
    p.free();
}

#[test]
fn marks_survive_strip_and_unstrip() {
    let pool = Pool::heap(4, 256);
    let mut p = packet(&pool, &[0; 60]);
    p.set_mac_offset(0);
    p.set_network_offset(14);
    p.set_transport_offset(34);
    p.pull(14);
    assert_eq!((p.mac_offset(), p.network_offset(), p.transport_offset()), (None, Some(0), Some(20)));
    assert!(p.mac_bytes::<14>().is_some());
    p.push(14);
    assert_eq!((p.mac_offset(), p.network_offset()), (Some(0), Some(14)));
    p.truncate(10);
    assert_eq!(p.network_offset(), None, "a mark behind the end is no mark");
    p.free();
}

#[test]
fn annotations_overlap_as_clicks_do() {
    let pool = Pool::heap(4, 256);
    let mut p = packet(&pool, b"");
    p.set_dst_ip(0x0a00_0001);
    assert_eq!([0, 1, 2, 3].map(|i| p.anno_u8(i)), [10, 0, 0, 1]);
    p.write_anno(anno::DST_IP6, &[0x20; 16]);
    assert_eq!(p.dst_ip(), 0x2020_2020);
    p.set_anno_u8(anno::PAINT, 7);
    p.write_anno(anno::VLAN_TCI, &[1, 2]);
    assert_eq!(p.anno_u32(anno::AGGREGATE), u32::from_ne_bytes([1, 2, 0, 0]));
    p.set_packet_type(PacketType::Broadcast);
    let copy = p.duplicate(&pool).unwrap();
    assert_eq!((copy.anno_u8(anno::PAINT), copy.packet_type()), (7, PacketType::Broadcast));
    p.clear_annos();
    assert_eq!((p.anno_u8(anno::PAINT), p.dst_ip(), p.packet_type()), (0, 0, PacketType::Host));
    assert_eq!(p.anno_u8(48), 0, "out of range reads as zero");
    p.set_anno_u8(99, 1);
    p.free();
    copy.free();
}

#[test]
fn an_empty_pool_gives_nothing_and_recovers() {
    let pool = Pool::heap(3, 64);
    let batch = pool.alloc_batch(10);
    assert_eq!((batch.len(), pool.in_use()), (3, 3));
    assert!(pool.alloc().is_none());
    batch.free();
    assert_eq!((pool.in_use(), pool.alloc_batch(10).into_iter().map(Packet::free).count()), (0, 3));
}

#[test]
fn packets_outlive_their_pool() {
    let pool = Pool::heap(200, 64);
    let batch = pool.alloc_batch(100);
    drop(pool);
    assert_eq!(batch.iter().map(Packet::len).sum::<usize>(), 0);
    batch.free();
}

#[test]
fn batches_keep_order_through_every_operation() {
    let pool = Pool::heap(600, 64);
    let numbered = |range: std::ops::Range<u8>| range.map(|i| packet(&pool, &[i])).collect::<Batch>();
    let text = |b: &Batch| b.iter().map(|p| p.data()[0]).collect::<Vec<_>>();

    let mut a = numbered(0..6);
    let mut odd = Batch::empty();
    a.retain(|p| p.data()[0] % 2 == 0, |p| odd.push(p));
    assert_eq!((text(&a), text(&odd)), (vec![0, 2, 4], vec![1, 3, 5]));
    let mut tail = a.split_off(1);
    assert_eq!((text(&a), text(&tail)), (vec![0], vec![2, 4]));
    tail.append(&mut odd);
    assert_eq!((text(&tail), odd.len()), (vec![2, 4, 1, 3, 5], 0));

    let mut full: Batch = numbered(0..250);
    let mut more = numbered(0..10);
    full.append(&mut more);
    assert_eq!((full.len(), text(&more)), (256, vec![6, 7, 8, 9]));
    assert_eq!(full.pop().map(|p| (p.data()[0], p.free())), Some((5, ())));
    for b in [a, tail, full, more] {
        b.free();
    }
    assert_eq!(pool.in_use(), 0);
}

#[test]
fn a_second_look_keeps_places_and_comes_after_all_first_ones() {
    let pool = Pool::heap(300, 64);
    let text = |b: &Batch| b.iter().map(|p| p.data()[0]).collect::<Vec<_>>();
    let mut batch: Batch = (0..=255).map(|i| packet(&pool, &[i])).collect();
    let looked = std::cell::Cell::new(0);
    let mut seen = Vec::new();
    batch.sift(
        |p| {
            looked.set(looked.get() + 1);
            match p.data()[0] {
                n if n < 250 => Err(n / 2),
                _ => Ok(()),
            }
        },
        |p, reason| {
            let n = p.data()[0];
            seen.push((looked.get(), n, reason));
            if n % 50 == 0 {
                return Some(p);
            }
            p.free();
            None
        },
    );
    assert_eq!(text(&batch), [0, 50, 100, 150, 200, 250, 251, 252, 253, 254, 255]);
    assert_eq!(seen, (0..250).map(|n| (256, n, n / 2)).collect::<Vec<_>>());
    batch.sift(
        |_| Err(()),
        |p, ()| {
            p.free();
            None
        },
    );
    batch.sift(|_| Err(()), |_, ()| unreachable!());
    assert_eq!((batch.len(), pool.in_use()), (0, 0));
}

#[test]
fn a_half_taken_batch_frees_the_rest() {
    let pool = Pool::heap(16, 64);
    let mut it = pool.alloc_batch(8).into_iter();
    it.next().unwrap().free();
    drop(it);
    assert_eq!(pool.in_use(), 0);
}

#[test]
fn batches_cross_threads() {
    let pool = Pool::heap(512, 64);
    let handles: Vec<_> = (0..4)
        .map(|_| {
            let pool = pool.clone();
            let batch = pool.alloc_batch(64);
            std::thread::spawn(move || {
                batch.free();
                for _ in 0..100 {
                    pool.alloc_batch(64).free();
                }
            })
        })
        .collect();
    for h in handles {
        h.join().unwrap();
    }
    assert_eq!(pool.in_use(), 0);
}

#[test]
fn packets_are_dealt_out_in_order() {
    let pool = Pool::heap(64, 64);
    let batch =
        |tags: std::ops::Range<u8>| -> Batch { tags.map(|tag| pool.packet(&[tag]).unwrap()).collect() };
    let mut bins: Vec<Batch> = vec![batch(100..102), Batch::empty(), Batch::empty()];
    batch(0..7).deal(&[2, 0, 2, 2, 0, 2, 0, 9], &mut bins, |port| port);
    let tags = |bin: &Batch| bin.iter().map(|p| p.data()[0]).collect::<Vec<_>>();
    assert_eq!(
        bins.iter().map(tags).collect::<Vec<_>>(),
        [vec![100, 101, 1, 4, 6], vec![], vec![0, 2, 3, 5]]
    );
    Batch::empty().deal(&[], &mut bins, |port: u16| port);
    bins.into_iter().for_each(Batch::free);
    // Two empty ones have a way of their own.
    for (facts, dealt) in [
        ([1, 0, 1, 1, 0], [vec![1, 4], vec![0, 2, 3]]),
        ([0; 5], [vec![0, 1, 2, 3, 4], vec![]]),
        ([1; 5], [vec![], vec![0, 1, 2, 3, 4]]),
    ] {
        let mut bins = [Batch::empty(), Batch::empty()];
        batch(0..5).deal(&facts, &mut bins, |port| port);
        assert_eq!(bins.each_ref().map(tags), dealt);
        bins.into_iter().for_each(Batch::free);
    }
    assert_eq!(pool.in_use(), 0);
}

#[test]
fn a_packet_for_no_bin_is_refused() {
    let pool = Pool::heap(64, 64);
    let deal = || {
        let batch: Batch = (0..3).map(|tag| pool.packet(&[tag]).unwrap()).collect();
        batch.deal(&[0, 2, 1], &mut [Batch::empty(), Batch::empty()], |port| port);
    };
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(deal)).is_err());
}

#[test]
fn all_packets_of_a_full_batch_are_dealt_out() {
    let pool = Pool::heap(512, 64);
    let batch: Batch = (0..256).map(|tag| pool.packet(&[tag as u8]).unwrap()).collect();
    let mut bins = [Batch::empty(), Batch::empty()];
    let facts: Vec<u16> = (0..256).map(|i| i * 7 / 3 % 2).collect();
    batch.deal(&facts, &mut bins, |port| port);
    for (bin, kept) in (0..).zip(&bins) {
        let want: Vec<u8> = (0..=255).filter(|i| facts[usize::from(*i)] == bin).collect();
        assert_eq!(kept.iter().map(|p| p.data()[0]).collect::<Vec<_>>(), want);
    }
    bins.into_iter().for_each(Batch::free);
    assert_eq!(pool.in_use(), 0);
}
