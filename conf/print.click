// Prints every packet of a capture, one line each, and counts what is not sound IPv4.
//
//   routebricks run conf/print.click FILE=in.pcap --read bad.count

define($FILE in.pcap);

FromDump($FILE, STOP true)
  -> kind :: Classifier(12/0800, -);
kind[0] -> check :: CheckIPHeader(14) -> IPPrint("ip") -> good :: Counter -> Discard;
kind[1] -> Print("other", MAXLENGTH 24) -> bad :: Counter;
check[1] -> Print("bad", MAXLENGTH 24) -> bad;
bad -> Discard;
