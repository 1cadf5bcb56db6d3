// A traffic generator: UDP packets of a fixed size at a fixed rate, LIMIT of them; -1 goes on for ever.
//
//   routebricks run conf/generator.click DEV=eth1 RATE=10000 LIMIT=50000

define(
  $DEV eth1, $RATE 1000, $LIMIT -1, $LENGTH 60,
  $SRCMAC 02:00:00:00:00:01, $SRC 10.0.1.2, $DSTMAC 02:00:00:00:01:01, $DST 10.0.2.2
);

source :: FastUDPSource($RATE, $LIMIT, $LENGTH, $SRCMAC, $SRC, 1234, $DSTMAC, $DST, 5678, STOP true)
  -> sent :: AverageCounter
  -> ToDevice($DEV);
