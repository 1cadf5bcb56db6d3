#include "rivals.h"

#include <string.h>

#include <rte_eal.h>
#include <rte_fib.h>
#include <rte_lpm.h>
#include <rte_malloc.h>
#include <rte_memory.h>
#include <rte_vect.h>

int rival_start(int argc, char **argv)
{
	return rte_eal_init(argc, argv) < 0 ? -1 : 0;
}

struct rte_fib *rival_fib(uint32_t routes, uint32_t groups)
{
	struct rte_fib_conf conf = {
		.type = RTE_FIB_DIR24_8,
		.default_nh = 0,
		.max_routes = (int)routes,
		.dir24_8 = { .nh_sz = RTE_FIB_DIR24_8_2B, .num_tbl8 = groups },
	};
	return rte_fib_create("rival", SOCKET_ID_ANY, &conf);
}

int rival_fib_select(struct rte_fib *fib, int how)
{
	return rte_fib_select_lookup(fib, how == RIVAL_AVX512 ? RTE_FIB_LOOKUP_DIR24_8_VECTOR_AVX512 :
								RTE_FIB_LOOKUP_DIR24_8_SCALAR_MACRO);
}

int rival_fib_add(struct rte_fib *fib, uint32_t address, uint8_t length, uint64_t hop)
{
	return rte_fib_add(fib, address, length, hop);
}

int rival_fib_delete(struct rte_fib *fib, uint32_t address, uint8_t length)
{
	return rte_fib_delete(fib, address, length);
}

void rival_fib_lookups(struct rte_fib *fib, const uint32_t *addresses, size_t n, unsigned int burst, uint64_t *hops)
{
	for (size_t i = 0; i + burst <= n; i += burst)
		rte_fib_lookup_bulk(fib, (uint32_t *)(uintptr_t)&addresses[i], hops, (int)burst);
}

struct rte_lpm *rival_lpm(uint32_t routes, uint32_t groups)
{
	struct rte_lpm_config conf = { .max_rules = routes, .number_tbl8s = groups };
	return rte_lpm_create("rival", SOCKET_ID_ANY, &conf);
}

int rival_lpm_add(struct rte_lpm *lpm, uint32_t address, uint8_t length, uint32_t hop)
{
	return rte_lpm_add(lpm, address, length, hop);
}

void rival_lpm_lookups(const struct rte_lpm *lpm, const uint32_t *addresses, size_t n, unsigned int burst, uint32_t *hops)
{
	for (size_t i = 0; i + burst <= n; i += burst) {
		for (unsigned int j = 0; j < burst; j += 4) {
			xmm_t four;
			memcpy(&four, &addresses[i + j], sizeof(four));
			rte_lpm_lookupx4(lpm, four, &hops[j], 0);
		}
		/* The next hops are wanted in memory after each burst. */
		__asm__ volatile("" : : "r"(hops) : "memory");
	}
}

size_t rival_memory(void)
{
	size_t bytes = 0;
	for (int socket = 0; socket < RTE_MAX_NUMA_NODES; socket++) {
		struct rte_malloc_socket_stats stats;
		if (rte_malloc_get_socket_stats(socket, &stats) == 0)
			bytes += stats.heap_allocsz_bytes;
	}
	return bytes;
}
