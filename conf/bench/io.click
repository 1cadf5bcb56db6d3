// Everything that comes in goes out by the same port: the least that a router does.
//
//   routebricks run conf/bench/io.click -- --vdev=net_pcap0,rx_pcap=FILE,infinite_rx=1

FromDPDKDevice(0) -> ToDPDKDevice(0);
