// conf/bench/ip-path.click with sixteen next hops, every other one behind the second of two ports: bursts are split.
//
//   routebricks run conf/bench/ip-path-2-ports.click TABLE=FILE -- --vdev=net_pcap0,rx_pcap=FILE,infinite_rx=1 \
//     --vdev=net_null0,no-rx=1 --vdev=net_null1,no-rx=1
//
// Routes of the table lead to the gateways 192.0.2.1 to 192.0.2.16, by the ports 0 and 1 in turn.

define($TABLE routes.txt, $BUFFERS 65536, $BURST 96);

DPDKInfo(NB_MBUF $BUFFERS);

FromDPDKDevice(0, BURST $BURST)
  -> CheckIPHeader(14)
  -> routes :: DirectIPLookup(FILE $TABLE, ONE_OUTPUT true)
  -> rewrite :: AdjacencyRewrite(routes,
      0 192.0.2.1 02:00:00:00:01:00 02:00:00:00:02:00,
      1 192.0.2.2 02:00:00:00:01:01 02:00:00:00:02:01,
      0 192.0.2.3 02:00:00:00:01:00 02:00:00:00:02:02,
      1 192.0.2.4 02:00:00:00:01:01 02:00:00:00:02:03,
      0 192.0.2.5 02:00:00:00:01:00 02:00:00:00:02:04,
      1 192.0.2.6 02:00:00:00:01:01 02:00:00:00:02:05,
      0 192.0.2.7 02:00:00:00:01:00 02:00:00:00:02:06,
      1 192.0.2.8 02:00:00:00:01:01 02:00:00:00:02:07,
      0 192.0.2.9 02:00:00:00:01:00 02:00:00:00:02:08,
      1 192.0.2.10 02:00:00:00:01:01 02:00:00:00:02:09,
      0 192.0.2.11 02:00:00:00:01:00 02:00:00:00:02:0a,
      1 192.0.2.12 02:00:00:00:01:01 02:00:00:00:02:0b,
      0 192.0.2.13 02:00:00:00:01:00 02:00:00:00:02:0c,
      1 192.0.2.14 02:00:00:00:01:01 02:00:00:00:02:0d,
      0 192.0.2.15 02:00:00:00:01:00 02:00:00:00:02:0e,
      1 192.0.2.16 02:00:00:00:01:01 02:00:00:00:02:0f);

rewrite[0] -> ToDPDKDevice(1);
rewrite[1] -> ToDPDKDevice(2);
