// Two paths that leave by the same device, by so many queues of it. With two workers and one queue, packets of one path
// change cores; with two queues none does.
//
//   routebricks run conf/bench/cores-overlap.click QUEUES=2 -j 2 -- --vdev=net_pcap0,rx_pcap=FILE,infinite_rx=1 \
//     --vdev=net_pcap1,rx_pcap=FILE,infinite_rx=1 --vdev=net_null0,no-rx=1

define($QUEUES 1);

first :: FromDPDKDevice(0, QUEUE 0) -> out :: ToDPDKDevice(2, N_QUEUES $QUEUES);
second :: FromDPDKDevice(1, QUEUE 0) -> out;

StaticThreadSched(first 0, second 1);
