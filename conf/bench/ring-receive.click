// Counts what comes from another process, which runs ring-send.click.
//
//   routebricks run conf/bench/ring-receive.click DEVICE=ring:/run/routebricks/bench --read rate.rate

define($DEVICE ring:/run/routebricks/bench);

FromDPDKDevice($DEVICE) -> rate :: AverageCounter -> Discard;
