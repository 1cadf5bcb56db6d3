// conf/bench/ip6-path.click with a pool for traces of more packets than the usual pool holds.

DPDKInfo(NB_MBUF 131072);

define($TABLE routes.txt, $BURST 128);

FromDPDKDevice(0, BURST $BURST)
  -> CheckIP6Header(14)
  -> routes :: LookupIP6Route(FILE $TABLE, ONE_OUTPUT true)
  -> IP6AdjacencyRewrite(routes, 0 - 02:00:00:00:00:01 02:00:00:00:00:02)
  -> ToDPDKDevice(0);
