//! The IP layer together: a router whose error messages go back through its own route table.

use elements::harness::{Bench, Setup};

/// One source for each kind of packet, all into one route table with two ports; errors re-enter the table.
const ROUTER: &str = "
    elementclass Port { $address, $mtu |
        input -> o :: IPGWOptions($address) -> FixIPSrc($address) -> ttl :: DecIPTTL
            -> f :: IPFragmenter($mtu) -> [0]output;
        o[1] -> ICMPError($address, parameterproblem) -> [1]output;
        ttl[1] -> ICMPError($address, timeexceeded) -> [1]output;
        f[1] -> ICMPError($address, unreachable, needfrag, PMTU $mtu) -> [1]output;
    }
    in :: CheckIPHeader(BADSRC 0.0.0.0/8 127.0.0.0/8 224.0.0.0/4 255.255.255.255, BADDST 0.0.0.0/8 127.0.0.0/8, CHECKSUM false)
        -> rt :: RadixIPLookup(10.0.1.0/24 0, 10.0.2.0/24 1, 0.0.0.0/0 2);
    rt[0] -> p0 :: Port(10.0.1.1, 1500) -> out0 :: Counter -> Discard;
    rt[1] -> p1 :: Port(10.0.2.1, 1400) -> out1 :: Counter -> Discard;
    rt[2] -> noroute :: ICMPError(10.0.1.1, unreachable, net) -> errors :: Counter -> rt;
    p0[1] -> errors;
    p1[1] -> errors;
    InfiniteSource(DATA \\<45000064 00000000 40110000 0a000109 0a000209>, LENGTH 100, LIMIT 10) -> in;
    InfiniteSource(DATA \\<45000064 00000000 01110000 0a000109 0a000209>, LENGTH 100, LIMIT 11) -> in;
    InfiniteSource(DATA \\<45000064 00000000 40110000 0a000109 0b000009>, LENGTH 100, LIMIT 12) -> in;
    InfiniteSource(DATA \\<450005dc 00004000 40110000 0a000109 0a000209>, LENGTH 1500, LIMIT 13) -> in;
    InfiniteSource(DATA \\<450005dc 00000000 40110000 0a000109 0a000209>, LENGTH 1500, LIMIT 14) -> in;
    InfiniteSource(DATA \\<46000064 00000000 40110000 0a000109 0a000209 07010000>, LENGTH 100, LIMIT 15) -> in;
    InfiniteSource(DATA \\<45000064 00000000 40110000 7f000109 0a000209>, LENGTH 100, LIMIT 16) -> in;
    InfiniteSource(DATA \\<45000064 00000000 40110000 0a000109 7f000209>, LENGTH 100, LIMIT 17) -> in;
    InfiniteSource(DATA \\<45000064 00000000 40110000 0c000109 0b000009>, LENGTH 100, LIMIT 18) -> in;
";

#[test]
fn errors_go_back_through_the_route_table() {
    for (workers, burst) in [(1, 32), (1, 1), (2, 32)] {
        let mut bench = Bench::new(ROUTER, &Setup { workers, burst, ..Setup::default() }).unwrap();
        bench.run().unwrap();
        // Ten whole packets, and fourteen in two fragments each.
        assert_eq!(bench.read("out1.count"), (10 + 2 * 14).to_string());
        // Back to 10.0.1.9: TTL, no route, DF, options. Those to 12.0.1.9 find no route and are errors themselves.
        assert_eq!(bench.read("out0.count"), (11 + 12 + 13 + 15).to_string());
        assert_eq!(bench.read("errors.count"), (11 + 12 + 13 + 15 + 18).to_string());
        assert_eq!(bench.read("out0.byte_count"), ((11 + 12 + 15) * 128 + 13 * 576).to_string());
        let losses: Vec<String> = bench.losses().into_iter().filter(|l| !l.ends_with("= 0")).collect();
        assert_eq!(losses, ["in.bad_source = 16", "in.bad_destination = 17", "noroute.icmp = 18"]);
        bench.end().unwrap();
    }
}

/// Packets with random headers, most of them nearly right, in every state of repair.
#[test]
fn any_packet_is_sent_or_lost_for_a_reason() {
    let mut seed = 7u64;
    let mut random = |n: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % n
    };
    for workers in [1, 2] {
        let mut config = ROUTER.to_owned();
        for _ in 0..400 {
            let length = random(90) as usize;
            let mut p: Vec<u8> = (0..length).map(|_| random(256) as u8).collect();
            let mut template = vec![0x45 + random(11) as u8, 0, 0, length as u8, 0, 0];
            template.extend([[0, 0], [0x40, 0], [0x20, 0], [0, 9]][random(4) as usize]);
            template.extend([random(3) as u8, [1, 6, 17][random(3) as usize], 0, 0]);
            template.extend([
                10,
                0,
                1,
                9,
                10,
                0,
                1 + random(2) as u8,
                9,
                [7, 68, 131, 1][random(4) as usize],
            ]);
            template.push(random(12) as u8);
            for (place, byte) in p.iter_mut().zip(template) {
                if random(40) > 0 {
                    *place = byte;
                }
            }
            let hex: String = p.iter().map(|b| format!("{b:02x}")).collect();
            config += &format!("InfiniteSource(DATA \\<{hex}>, LIMIT 2) -> in;\n");
        }
        let mut bench = Bench::new(&config, &Setup { workers, ..Setup::default() }).unwrap();
        bench.run().unwrap();
        let lost = |name: &str| bench.losses().iter().any(|l| l.starts_with(name) && !l.ends_with("= 0"));
        for reason in ["in.short", "in.bad_version", "in.bad_length", "p0/ICMPError"] {
            assert!(lost(reason), "{reason}: {:?}", bench.losses());
        }
        bench.end().unwrap();
    }
}
