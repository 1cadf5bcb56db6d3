// conf/bench/io.click with a pool for traces of more packets than the usual pool holds.

DPDKInfo(NB_MBUF 131072);

// What a batch of 48 touches fits the first level of translations of an Intel core, too, where pages are small.
FromDPDKDevice(0, BURST 48) -> ToDPDKDevice(0);
