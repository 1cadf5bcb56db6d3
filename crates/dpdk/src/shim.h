/*
 * What Rust cannot call by itself: DPDK's static inline functions (one call a burst, never one a packet), and
 * structures whose fields were renamed or regrouped between DPDK releases, flattened here.
 */
#ifndef ROUTEBRICKS_DPDK_SHIM_H
#define ROUTEBRICKS_DPDK_SHIM_H

#include <stddef.h>
#include <stdint.h>

#include <rte_dev.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_lcore.h>
#include <rte_mbuf.h>
#include <rte_mbuf_pool_ops.h>
#include <rte_mempool.h>
#include <rte_memzone.h>
#include <rte_version.h>

/* The layout of the installed struct rte_mbuf, which the Rust side compares with its own at compile time. */
#define RB_FIELD(rust, c) \
	RB_OFFSET_##rust = offsetof(struct rte_mbuf, c), RB_SIZE_##rust = sizeof(((struct rte_mbuf *)0)->c)
enum rb_layout {
	RB_FIELD(buf_addr, buf_addr),
	RB_FIELD(buf_iova, buf_iova),
	RB_FIELD(data_off, data_off),
	RB_FIELD(refcnt, refcnt),
	RB_FIELD(nb_segs, nb_segs),
	RB_FIELD(port, port),
	RB_FIELD(ol_flags, ol_flags),
	RB_FIELD(packet_type, packet_type),
	RB_FIELD(pkt_len, pkt_len),
	RB_FIELD(data_len, data_len),
	RB_FIELD(vlan_tci, vlan_tci),
	RB_FIELD(hash_lo, hash.rss),
	RB_FIELD(hash_hi, hash.fdir.hi),
	RB_FIELD(vlan_tci_outer, vlan_tci_outer),
	RB_FIELD(buf_len, buf_len),
	RB_FIELD(pool, pool),
	RB_FIELD(next, next),
	RB_FIELD(tx_offload, tx_offload),
	RB_FIELD(shinfo, shinfo),
	RB_FIELD(priv_size, priv_size),
	RB_FIELD(timesync, timesync),
	RB_FIELD(dynfield1, dynfield1),
	RB_SIZE_mbuf = sizeof(struct rte_mbuf),
	RB_HEADROOM = RTE_PKTMBUF_HEADROOM,
};

/* Bits of ol_flags. */
#define RB_CONST(type, name, value) static const type name = value
RB_CONST(uint64_t, RB_RX_RSS_HASH, 1ULL << 1);
RB_CONST(uint64_t, RB_NOT_OURS, (1ULL << 61) | (1ULL << 62));

struct rb_info {
	const char *driver;
	int32_t socket; /* -1: none */
	uint16_t max_rx_queues, max_tx_queues;
	uint16_t rx_descriptors, tx_descriptors; /* the driver's wish; 0: none */
	uint32_t max_rx_len; /* longest frame it can receive */
	uint32_t rss_words; /* what it can hash, see rb_rss_to_words() */
	uint16_t rss_table; /* entries of the redirection table; 0: none */
	uint8_t rss_key_len; /* 0: unknown */
};

struct rb_link {
	uint32_t mbps; /* 0: unknown */
	uint8_t up, full_duplex;
};

struct rb_rss {
	const uint8_t *key; /* NULL: the driver's */
	uint32_t hashes; /* words of the crate io; 0: no RSS */
	uint8_t key_len;
};

int rb_errno(void);

/* The log: kept in memory, read and forgotten by rb_log_take (returns the bytes written to text). */
int rb_log_open(int echo);
size_t rb_log_take(char *text, size_t size);

int rb_info(uint16_t port, struct rb_info *out);
int rb_link(uint16_t port, struct rb_link *out);
/* Name of the device (not of the port) and of its bus, for hot-unplugging. */
int rb_device(uint16_t port, const char **bus, const char **device);
/* mtu 0: the device's default. Spreads flows over the receive queues as far as the device can (RSS). 1: packets will come
 * with their hash, 0: without, negative: error. */
int rb_configure(uint16_t port, uint16_t rx_queues, uint16_t tx_queues, uint32_t mtu, const struct rb_rss *rss);
/* Between DPDK's bits of what is hashed and the words of the crate io. */
uint32_t rb_rss_to_words(uint64_t hashes);
uint64_t rb_rss_of_words(uint32_t words);
/* The i-th bit that has a name, and the name; NULL: there are no more. */
const char *rb_rss_name(unsigned int i, uint64_t *bit);
/* What a port hashes and with which key. There must be room for 255 bytes; *key_len is what to ask for. */
int rb_rss_get(uint16_t port, uint64_t *hashes, uint8_t *key, uint8_t *key_len);
/* Sets what a configured port hashes, as far as it can, and its key, if there is one. */
int rb_rss_set(uint16_t port, const struct rb_rss *rss);
/* The redirection table: the first queues by turns. */
int rb_table_set(uint16_t port, uint16_t size, uint16_t queues);
int rb_table_get(uint16_t port, uint16_t *table, uint16_t size);
int rb_rx_queue(uint16_t port, uint16_t queue, uint16_t descriptors, struct rte_mempool *pool);
int rb_tx_queue(uint16_t port, uint16_t queue, uint16_t descriptors);

/* The functions of a port's queues: one of DPDK's table of them, which stays where it is. */
const struct rte_eth_fp_ops *rb_ops(uint16_t port);
/* As rte_eth_rx_burst() and rte_eth_tx_burst(), callbacks included. */
uint16_t rb_rx_burst(const struct rte_eth_fp_ops *ops, uint16_t queue, struct rte_mbuf **packets, uint16_t n);
uint16_t rb_tx_burst(const struct rte_eth_fp_ops *ops, uint16_t queue, struct rte_mbuf **packets, uint16_t n);
/* A pool of packet buffers that lie in one row, each right behind the one before, where the addresses of devices are
 * those of the process (IOVA as VA). Else as DPDK lays them out, where none crosses a page. NULL: see rb_errno(). */
struct rte_mempool *rb_pool(const char *name, unsigned int n, unsigned int cache, uint16_t private_size, uint16_t room);
/* Buffers of a pool that XDP sockets cannot use: the driver tells the kernel of as many bytes from the first buffer on
 * as all would take in one row. Sets them aside for ever if they are few (at most one in 16) and nothing of the pool is
 * in use: then *aside tells how many they were, and there are none. */
unsigned int rb_beyond_xdp(struct rte_mempool *pool, unsigned int *aside);
/* All n or none: 0, or a negative number. */
int rb_alloc(struct rte_mempool *pool, struct rte_mbuf **packets, unsigned int n);
/* Buffers must be direct, unshared, one segment. */
void rb_put(struct rte_mempool *pool, struct rte_mbuf **packets, unsigned int n);
/* Any packet. */
void rb_free(struct rte_mbuf *packet);
/* Copies a packet of whatever segments into one fresh buffer of the pool and frees it; NULL (and freed) if the pool
 * is empty (*too_long = 0) or the packet too long (*too_long = 1). */
struct rte_mbuf *rb_own(struct rte_mempool *pool, struct rte_mbuf *packet, int *too_long);

#endif
