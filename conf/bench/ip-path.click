// What a router does to every packet that it forwards: header check, lookup, TTL, addresses of the next link.
//
//   routebricks run conf/bench/ip-path.click TABLE=FILE -- --vdev=net_pcap0,rx_pcap=FILE,infinite_rx=1
//
// All routes of the table lead to port 0.

define($TABLE routes.txt, $BURST 96);

FromDPDKDevice(0, BURST $BURST)
  -> CheckIPHeader(14)
  -> routes :: DirectIPLookup(FILE $TABLE, ONE_OUTPUT true)
  -> AdjacencyRewrite(routes, 0 - 02:00:00:00:00:01 02:00:00:00:00:02)
  -> ToDPDKDevice(0);
