// conf/bench/io.click with eight elements more on the way that do nothing: what an element costs at the least.
//
//   routebricks run conf/bench/io-8-more.click -- --vdev=net_pcap0,rx_pcap=FILE,infinite_rx=1

FromDPDKDevice(0)
  -> Null -> Null -> Null -> Null
  -> Null -> Null -> Null -> Null
  -> ToDPDKDevice(0);
