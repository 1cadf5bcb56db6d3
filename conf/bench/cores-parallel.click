// Two paths that have nothing in common. With two workers each path has a core, if each device has one queue for it.
//
//   routebricks run conf/bench/cores-parallel.click -j 2 -- --vdev=net_pcap0,rx_pcap=FILE,infinite_rx=1 \
//     --vdev=net_pcap1,rx_pcap=FILE,infinite_rx=1

first :: FromDPDKDevice(0, QUEUE 0) -> ToDPDKDevice(0);
second :: FromDPDKDevice(1, QUEUE 0) -> ToDPDKDevice(1);

StaticThreadSched(first 0, second 1);
