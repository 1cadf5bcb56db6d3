#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rte_bus.h>
#include <rte_log.h>

#include "shim.h"

_Static_assert(sizeof(struct rte_mbuf) == 128, "two cache lines");
_Static_assert(RTE_PKTMBUF_HEADROOM == 128, "headroom as in the crate packet");
_Static_assert(RB_OFFSET_pool < 64 && RB_OFFSET_next == 64, "what the fast path reads lies in the first cache line");
_Static_assert(RTE_MBUF_F_RX_RSS_HASH == 1ULL << 1, "RB_RX_RSS_HASH");
_Static_assert((RTE_MBUF_F_EXTERNAL | RTE_MBUF_F_INDIRECT) == (3ULL << 61), "RB_NOT_OURS");

int rb_errno(void)
{
	return rte_errno;
}

/* ---- log ---- */

static struct {
	pthread_mutex_t lock;
	size_t used;
	int echo;
	char text[8192];
} rb_log = { .lock = PTHREAD_MUTEX_INITIALIZER };

static ssize_t rb_log_write(void *cookie, const char *text, size_t size)
{
	(void)cookie;
	int level = rte_log_cur_msg_loglevel();
	pthread_mutex_lock(&rb_log.lock);
	if (level >= 0 && level <= (int)RTE_LOG_WARNING) {
		size_t room = sizeof(rb_log.text) - rb_log.used;
		size_t n = size < room ? size : room;
		memcpy(rb_log.text + rb_log.used, text, n);
		rb_log.used += n;
	}
	if (rb_log.echo)
		fwrite(text, 1, size, stderr);
	pthread_mutex_unlock(&rb_log.lock);
	return (ssize_t)size;
}

int rb_log_open(int echo)
{
	cookie_io_functions_t io = { .write = rb_log_write };
	FILE *stream = fopencookie(NULL, "w", io);
	if (stream == NULL)
		return -1;
	setvbuf(stream, NULL, _IOLBF, 0);
	rb_log.echo = echo;
	return rte_openlog_stream(stream);
}

size_t rb_log_take(char *text, size_t size)
{
	pthread_mutex_lock(&rb_log.lock);
	size_t n = rb_log.used < size ? rb_log.used : size;
	memcpy(text, rb_log.text, n);
	rb_log.used = 0;
	pthread_mutex_unlock(&rb_log.lock);
	return n;
}

/* ---- ports ---- */

int rb_info(uint16_t port, struct rb_info *out)
{
	struct rte_eth_dev_info info;
	int error = rte_eth_dev_info_get(port, &info);
	if (error != 0)
		return error;
	out->driver = info.driver_name;
	out->socket = rte_eth_dev_socket_id(port);
	out->max_rx_queues = info.max_rx_queues;
	out->max_tx_queues = info.max_tx_queues;
	out->rx_descriptors = info.default_rxportconf.ring_size;
	out->tx_descriptors = info.default_txportconf.ring_size;
	out->max_rx_len = info.max_rx_pktlen;
	out->rss_words = rb_rss_to_words(info.flow_type_rss_offloads);
	out->rss_key_len = info.hash_key_size;
	out->rss_table = info.reta_size;
	return 0;
}

int rb_link(uint16_t port, struct rb_link *out)
{
	struct rte_eth_link link;
	memset(&link, 0, sizeof(link));
	int error = rte_eth_link_get_nowait(port, &link);
	if (error != 0)
		return error;
	out->up = link.link_status == RTE_ETH_LINK_UP;
	out->full_duplex = link.link_duplex == RTE_ETH_LINK_FULL_DUPLEX;
	out->mbps = link.link_speed == RTE_ETH_SPEED_NUM_UNKNOWN ? 0 : link.link_speed;
	return 0;
}

int rb_device(uint16_t port, const char **bus, const char **device)
{
	struct rte_eth_dev_info info;
	int error = rte_eth_dev_info_get(port, &info);
	if (error != 0)
		return error;
	if (info.device == NULL)
		return -ENODEV;
	*bus = rte_bus_name(rte_dev_bus(info.device));
	*device = rte_dev_name(info.device);
	return 0;
}

int rb_configure(uint16_t port, uint16_t rx_queues, uint16_t tx_queues, uint32_t mtu, const struct rb_rss *rss)
{
	struct rte_eth_dev_info info;
	struct rte_eth_conf conf;
	int error = rte_eth_dev_info_get(port, &info);
	if (error != 0)
		return error;
	memset(&conf, 0, sizeof(conf));
	conf.rxmode.mtu = mtu;
	/* Packets leave as single unshared buffers of one pool, so drivers may put them back without looking. */
	conf.txmode.offloads = info.tx_offload_capa & RTE_ETH_TX_OFFLOAD_MBUF_FAST_FREE;
	uint64_t fields = info.flow_type_rss_offloads & rb_rss_of_words(rss->hashes);
	if (fields != 0 && rx_queues > 0) {
		conf.rxmode.mq_mode = RTE_ETH_MQ_RX_RSS;
		conf.rxmode.offloads = info.rx_offload_capa & RTE_ETH_RX_OFFLOAD_RSS_HASH;
		conf.rx_adv_conf.rss_conf.rss_hf = fields;
		/* DPDK copies it. */
		conf.rx_adv_conf.rss_conf.rss_key = (uint8_t *)(uintptr_t)rss->key;
		conf.rx_adv_conf.rss_conf.rss_key_len = rss->key_len;
	}
	error = rte_eth_dev_configure(port, rx_queues, tx_queues, &conf);
	return error != 0 ? error : (conf.rxmode.offloads & RTE_ETH_RX_OFFLOAD_RSS_HASH) != 0;
}

int rb_rx_queue(uint16_t port, uint16_t queue, uint16_t descriptors, struct rte_mempool *pool)
{
	/* A device without a socket says -1, which is SOCKET_ID_ANY. */
	return rte_eth_rx_queue_setup(port, queue, descriptors, (unsigned int)rte_eth_dev_socket_id(port), NULL, pool);
}

int rb_tx_queue(uint16_t port, uint16_t queue, uint16_t descriptors)
{
	return rte_eth_tx_queue_setup(port, queue, descriptors, (unsigned int)rte_eth_dev_socket_id(port), NULL);
}

/* ---- pool ---- */

static void rb_free_zone(struct rte_mempool_memhdr *chunk, void *zone)
{
	(void)chunk;
	rte_memzone_free(zone);
}

/* Bytes from one buffer of the pool to the next in a row. */
static size_t rb_pitch(const struct rte_mempool *pool)
{
	return (size_t)pool->header_size + pool->elt_size + pool->trailer_size;
}

/* Gives an empty pool memory in one piece. A negative errno if there is no such piece. */
static int rb_fill_row(struct rte_mempool *pool, const char *name)
{
	size_t size = pool->size * rb_pitch(pool) + RTE_MEMPOOL_ALIGN;
	const struct rte_memzone *zone =
		rte_memzone_reserve_aligned(name, size, pool->socket_id, 0, RTE_MEMPOOL_ALIGN);
	if (zone == NULL)
		return -rte_errno;
	int filled = rte_mempool_populate_iova(pool, zone->addr, zone->iova, zone->len, rb_free_zone,
					       (void *)(uintptr_t)zone);
	if (filled <= 0) {
		rte_memzone_free(zone);
		return filled < 0 ? filled : -ENOMEM;
	}
	return (unsigned int)filled < pool->size ? -ENOMEM : 0;
}

/* The pool in one row, or NULL. */
static struct rte_mempool *rb_row(const char *name, unsigned int n, unsigned int cache, uint16_t private_size,
				  uint16_t room)
{
	struct rte_pktmbuf_pool_private form = { .mbuf_data_room_size = room, .mbuf_priv_size = private_size };
	/* Without this flag no buffer may cross a page, so that most of one in two small pages is wasted. A row in virtual
	 * memory is one for devices, too, where they use the same addresses. */
	struct rte_mempool *pool =
		rte_mempool_create_empty(name, n, (unsigned int)sizeof(struct rte_mbuf) + private_size + room, cache,
					 sizeof(form), SOCKET_ID_ANY, RTE_MEMPOOL_F_NO_IOVA_CONTIG);
	if (pool == NULL)
		return NULL;
	int error = rte_mempool_set_ops_byname(pool, rte_mbuf_best_mempool_ops(), NULL);
	if (error == 0) {
		rte_pktmbuf_pool_init(pool, &form);
		error = rb_fill_row(pool, name);
	}
	if (error != 0) {
		rte_mempool_free(pool);
		rte_errno = -error;
		return NULL;
	}
	rte_mempool_obj_iter(pool, rte_pktmbuf_init, NULL);
	return pool;
}

struct rte_mempool *rb_pool(const char *name, unsigned int n, unsigned int cache, uint16_t private_size, uint16_t room)
{
	struct rte_mempool *pool = NULL;
	if (rte_eal_iova_mode() == RTE_IOVA_VA)
		pool = rb_row(name, n, cache, private_size, room);
	if (pool == NULL)
		pool = rte_pktmbuf_pool_create(name, n, cache, private_size, room, SOCKET_ID_ANY);
	return pool;
}

static int rb_is_beyond(const struct rte_mempool *pool, const void *buffer)
{
	const char *first = STAILQ_FIRST(&pool->mem_list)->addr;
	const char *end = (const char *)buffer + pool->elt_size;
	return (const char *)buffer < first || end > first + pool->populated_size * rb_pitch(pool);
}

static void rb_count_beyond(struct rte_mempool *pool, void *count, void *buffer, unsigned int index)
{
	(void)index;
	*(unsigned int *)count += (unsigned int)rb_is_beyond(pool, buffer);
}

unsigned int rb_beyond_xdp(struct rte_mempool *pool, unsigned int *aside)
{
	unsigned int beyond = 0, n = pool->populated_size;
	*aside = 0;
	rte_mempool_obj_iter(pool, rb_count_beyond, &beyond);
	if (beyond == 0 || beyond > n / 16)
		return beyond;
	void **all = malloc(n * sizeof(*all));
	if (all == NULL)
		return beyond;
	/* Past the caches, which are empty: each buffer comes once. */
	if (rte_mempool_generic_get(pool, all, n, NULL) == 0) {
		unsigned int kept = 0;
		for (unsigned int i = 0; i < n; i++)
			if (!rb_is_beyond(pool, all[i]))
				all[kept++] = all[i];
		rte_mempool_generic_put(pool, all, kept, NULL);
		*aside = beyond;
		beyond = 0;
	}
	free(all);
	return beyond;
}

/* ---- packets ---- */

const struct rte_eth_fp_ops *rb_ops(uint16_t port)
{
	return &rte_eth_fp_ops[port];
}

static uint16_t rb_port(const struct rte_eth_fp_ops *ops)
{
	return (uint16_t)(ops - rte_eth_fp_ops);
}

uint16_t rb_rx_burst(const struct rte_eth_fp_ops *ops, uint16_t queue, struct rte_mbuf **packets, uint16_t n)
{
	return rte_eth_rx_burst(rb_port(ops), queue, packets, n);
}

uint16_t rb_tx_burst(const struct rte_eth_fp_ops *ops, uint16_t queue, struct rte_mbuf **packets, uint16_t n)
{
	return rte_eth_tx_burst(rb_port(ops), queue, packets, n);
}

int rb_alloc(struct rte_mempool *pool, struct rte_mbuf **packets, unsigned int n)
{
	return rte_pktmbuf_alloc_bulk(pool, packets, n);
}

void rb_put(struct rte_mempool *pool, struct rte_mbuf **packets, unsigned int n)
{
	rte_mempool_put_bulk(pool, (void *const *)packets, n);
}

void rb_free(struct rte_mbuf *packet)
{
	rte_pktmbuf_free(packet);
}

struct rte_mbuf *rb_own(struct rte_mempool *pool, struct rte_mbuf *packet, int *too_long)
{
	struct rte_mbuf *copy = NULL;
	uint32_t length = rte_pktmbuf_pkt_len(packet);

	*too_long = length + RTE_PKTMBUF_HEADROOM > rte_pktmbuf_data_room_size(pool);
	if (!*too_long)
		copy = rte_pktmbuf_alloc(pool);
	if (copy != NULL) {
		char *to = rte_pktmbuf_append(copy, (uint16_t)length);
		const void *from = rte_pktmbuf_read(packet, 0, length, to);
		/* rte_pktmbuf_read copies only what lies in several segments. */
		if (from != NULL && from != to)
			memcpy(to, from, length);
		copy->ol_flags = packet->ol_flags & RTE_MBUF_F_RX_RSS_HASH;
		copy->hash.rss = packet->hash.rss;
	}
	rte_pktmbuf_free(packet);
	return copy;
}
