//! What a packet is: a buffer with the mbuf's layout, header formats, annotations, batches.
