// conf/bench/io.click with a pool for traces of more packets than the usual pool holds.

DPDKInfo(NB_MBUF 131072);

// Fewer at a time than by default: docs/decisions/0064-pages-say-how-long-batches-are.md.
FromDPDKDevice(0, BURST 48) -> ToDPDKDevice(0);
