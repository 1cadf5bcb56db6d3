// The load of conf/generator.click with probes in it, which come from 198.18.0.2 and differ in their ports. It ends after
// LIMIT packets of the load.
//
//   routebricks run conf/bench/ndr-latency.click DEV=eth1 RATE=10000 LIMIT=50000 PROBES=100

define(
  $DEV eth1, $RATE 1000, $LIMIT -1, $PROBES 100, $LENGTH 60,
  $SRCMAC 02:00:00:00:00:01, $SRC 10.0.1.2, $DSTMAC 02:00:00:00:01:01, $DST 10.0.2.2
);

probes :: FastUDPSource($PROBES, -1, $LENGTH, $SRCMAC, 198.18.0.2, 1000, $DSTMAC, $DST, 1000, INTERVAL 1)
  -> [0] out :: PrioSched;
load :: FastUDPSource($RATE, $LIMIT, $LENGTH, $SRCMAC, $SRC, 1234, $DSTMAC, $DST, 5678, STOP true)
  -> [1] out;
out -> sent :: AverageCounter -> ToDevice($DEV);
