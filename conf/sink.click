// A sink that says how much comes in: `routebricks show elements`, or after the run:
//
//   routebricks run conf/sink.click DEV=eth1 --read seen.count --read seen.rate

define($DEV eth1);

FromDPDKDevice($DEV) -> seen :: AverageCounter -> Discard;
