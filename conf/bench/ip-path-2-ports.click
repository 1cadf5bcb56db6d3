// conf/bench/ip-path.click with sixteen next hops, every other one behind the second of two ports: bursts are split.
//
//   routebricks run conf/bench/ip-path-2-ports.click TABLE=FILE -- --vdev=net_pcap0,rx_pcap=FILE,infinite_rx=1 \
//     --vdev=net_null0,no-rx=1 --vdev=net_null1,no-rx=1
//
// Routes of the table lead to the outputs 0 to 15, one for each next hop.

define($TABLE routes.txt, $BUFFERS 65536);

DPDKInfo(NB_MBUF $BUFFERS);

out0 :: ToDPDKDevice(1);
out1 :: ToDPDKDevice(2);

// Every packet that finds a route is forwarded, so its time to live may be counted before the burst is split.
FromDPDKDevice(0)
  -> CheckIPHeader(14)
  -> DecIPTTL
  -> routes :: DirectIPLookup(FILE $TABLE);

routes[0]  -> EtherRewrite(02:00:00:00:01:00, 02:00:00:00:02:00) -> out0;
routes[1]  -> EtherRewrite(02:00:00:00:01:01, 02:00:00:00:02:01) -> out1;
routes[2]  -> EtherRewrite(02:00:00:00:01:00, 02:00:00:00:02:02) -> out0;
routes[3]  -> EtherRewrite(02:00:00:00:01:01, 02:00:00:00:02:03) -> out1;
routes[4]  -> EtherRewrite(02:00:00:00:01:00, 02:00:00:00:02:04) -> out0;
routes[5]  -> EtherRewrite(02:00:00:00:01:01, 02:00:00:00:02:05) -> out1;
routes[6]  -> EtherRewrite(02:00:00:00:01:00, 02:00:00:00:02:06) -> out0;
routes[7]  -> EtherRewrite(02:00:00:00:01:01, 02:00:00:00:02:07) -> out1;
routes[8]  -> EtherRewrite(02:00:00:00:01:00, 02:00:00:00:02:08) -> out0;
routes[9]  -> EtherRewrite(02:00:00:00:01:01, 02:00:00:00:02:09) -> out1;
routes[10] -> EtherRewrite(02:00:00:00:01:00, 02:00:00:00:02:0a) -> out0;
routes[11] -> EtherRewrite(02:00:00:00:01:01, 02:00:00:00:02:0b) -> out1;
routes[12] -> EtherRewrite(02:00:00:00:01:00, 02:00:00:00:02:0c) -> out0;
routes[13] -> EtherRewrite(02:00:00:00:01:01, 02:00:00:00:02:0d) -> out1;
routes[14] -> EtherRewrite(02:00:00:00:01:00, 02:00:00:00:02:0e) -> out0;
routes[15] -> EtherRewrite(02:00:00:00:01:01, 02:00:00:00:02:0f) -> out1;
