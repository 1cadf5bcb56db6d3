//! How packets enter and leave: ports, their queues, memory and pcap back ends.
