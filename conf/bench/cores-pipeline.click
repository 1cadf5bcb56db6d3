// Two cores for one path: one receives, the other one sends.
//
//   routebricks run conf/bench/cores-pipeline.click -j 2 -- --vdev=net_pcap0,rx_pcap=FILE,infinite_rx=1

receiver :: FromDPDKDevice(0, QUEUE 0) -> between :: Queue(4096) -> sender :: Unqueue -> ToDPDKDevice(0);

StaticThreadSched(receiver 0, sender 1);
