// Everything that comes in goes out by the same port: the least that a router does.
//
//   routebricks run conf/bench/io.click -- --vdev=net_pcap0,rx_pcap=FILE,infinite_rx=1

// What a batch of 48 touches fits the first level of translations of an Intel core, too, where pages are small.
FromDPDKDevice(0, BURST 48) -> ToDPDKDevice(0);
