// What a router adds to the time of a packet: sends it a load and probes, and notes when each probe leaves and comes back.
//
//   routebricks run conf/bench/probe.click RATE=1000000 PROBES=10000 SENT=sent.pcap BACK=back.pcap \
//     -- --vdev=net_memif0,role=client,socket=FILE
//
// The router sends everything back by the port that it came in by. Probes come from 198.18.0.2 and differ in the source
// port. Load and probes end after LIMIT packets each; -1 goes on for ever.

define($RATE 1000000, $PROBES 10000, $LIMIT -1, $DST 10.0.2.2, $SENT sent.pcap, $BACK back.pcap);

probes :: FastUDPSource($PROBES, $LIMIT, 64, 02:00:00:00:00:01, 198.18.0.2, 1000, 02:00:00:00:00:02, $DST, 9,
    INTERVAL 1)
  -> SetTimestamp
  -> ToDump($SENT)
  -> [0] out :: PrioSched;
// What was not sent while the processor did something else is not made up for: that would be load at another rate.
load :: FastUDPSource(0, $LIMIT, 64, 02:00:00:00:00:01, 198.18.0.1, 1000, 02:00:00:00:00:02, $DST, 9)
  -> Shaper($RATE, BURST_DURATION 5us)
  -> [1] out;
out -> sent :: AverageCounter -> ToDevice(0);

FromDPDKDevice(0) -> back :: AverageCounter -> kind :: Classifier(26/c6120002, -);
kind[0] -> SetTimestamp -> ToDump($BACK);
kind[1] -> Discard;
