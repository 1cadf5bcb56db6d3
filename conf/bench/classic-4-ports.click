// A path through a router as Click configurations have it: for each of four ports an EtherEncap, and a queue from which
// the device pulls.
//
//   routebricks run conf/bench/classic-4-ports.click TABLE=FILE -- --vdev=net_pcap0,rx_pcap=FILE,infinite_rx=1 \
//     --vdev=net_null0,no-rx=1 --vdev=net_null1,no-rx=1 --vdev=net_null2,no-rx=1
//
// Routes of the table lead to the ports 0 to 3.

define($TABLE routes.txt, $BUFFERS 65536);

DPDKInfo(NB_MBUF $BUFFERS);

// Four outputs share what comes at a time: more than usual, so that a driver gets some 32 packets in a call.
FromDPDKDevice(0, BURST 128)
  -> Strip(14)
  -> CheckIPHeader
  -> routes :: DirectIPLookup(FILE $TABLE);

routes[0] -> DecIPTTL -> EtherEncap(0x0800, 02:00:00:00:01:00, 02:00:00:00:02:00) -> Queue -> ToDevice(0);
routes[1] -> DecIPTTL -> EtherEncap(0x0800, 02:00:00:00:01:01, 02:00:00:00:02:01) -> Queue -> ToDevice(1);
routes[2] -> DecIPTTL -> EtherEncap(0x0800, 02:00:00:00:01:02, 02:00:00:00:02:02) -> Queue -> ToDevice(2);
routes[3] -> DecIPTTL -> EtherEncap(0x0800, 02:00:00:00:01:03, 02:00:00:00:02:03) -> Queue -> ToDevice(3);
