// Everything that comes in goes out by the same port: the least that a router does.
//
//   routebricks run conf/bench/io.click -- --vdev=net_pcap0,rx_pcap=FILE,infinite_rx=1

// Fewer at a time than by default: docs/decisions/0064-pages-say-how-long-batches-are.md.
FromDPDKDevice(0, BURST 48) -> ToDPDKDevice(0);
