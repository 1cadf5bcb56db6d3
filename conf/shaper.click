// Shapes a capture: at most RATE packets a second leave, and DNS goes first.
//
//   routebricks run --simtime conf/shaper.click IN=in.pcap OUT=out.pcap RATE=100

define($IN in.pcap, $OUT out.pcap, $RATE 100);

FromDump($IN)
  -> MarkIPHeader(14)
  -> class :: IPClassifier(udp port 53, -);
class[0] -> first :: Queue(10000) -> [0]order :: PrioSched;
class[1] -> other :: Queue(10000) -> [1]order;
order -> Shaper($RATE) -> SetTimestamp -> ToDump($OUT);
