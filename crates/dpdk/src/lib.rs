//! DPDK made safe: EAL, pools, ports, queues.
