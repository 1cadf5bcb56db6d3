// conf/bench/io.click with batching of its own: up to KP packets are received at a time, and KN are sent at a time, but
// none waits for others longer than TIMEOUT.
//
//   routebricks run conf/bench/batching.click KP=32 KN=32 TIMEOUT=100us -- --vdev=net_pcap0,rx_pcap=FILE,infinite_rx=1

define($KP 32, $KN 32, $TIMEOUT 100us);

FromDPDKDevice(0, BURST $KP) -> ToDPDKDevice(0, BURST $KN, TIMEOUT $TIMEOUT);
