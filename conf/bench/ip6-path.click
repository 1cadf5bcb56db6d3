// What a router does to every IPv6 packet that it forwards: header check, lookup, hop limit, addresses of the next link.
//
//   routebricks run conf/bench/ip6-path.click TABLE=FILE -- --vdev=net_pcap0,rx_pcap=FILE,infinite_rx=1
//
// All routes of the table lead to port 0.

define($TABLE routes.txt, $BURST 128);

FromDPDKDevice(0, BURST $BURST)
  -> CheckIP6Header(14)
  -> routes :: LookupIP6Route(FILE $TABLE, ONE_OUTPUT true)
  -> IP6AdjacencyRewrite(routes, 0 - 02:00:00:00:00:01 02:00:00:00:00:02)
  -> ToDPDKDevice(0);
