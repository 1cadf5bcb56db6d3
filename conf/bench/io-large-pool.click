// conf/bench/io.click with a pool for traces of more packets than the usual pool holds.

DPDKInfo(NB_MBUF 131072);

FromDPDKDevice(0) -> ToDPDKDevice(0);
