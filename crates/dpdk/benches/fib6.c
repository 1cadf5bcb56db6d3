#include "fib6.h"

#include <rte_eal.h>
#include <rte_fib6.h>
#include <rte_lpm6.h>
#include <rte_malloc.h>

int rb_fib6_eal(const char *lcore, const char *mbytes)
{
	char *argv[] = {
		"lookups6", "-l", (char *)lcore, "-m", (char *)mbytes, "--in-memory", "--file-prefix", "lookups6",
		"--no-telemetry", "--no-pci", "--log-level=error", "--force-max-simd-bitwidth=512", NULL,
	};
	return rte_eal_init((int)(sizeof(argv) / sizeof(argv[0])) - 1, argv);
}

size_t rb_fib6_heap(void)
{
	struct rte_malloc_socket_stats stats;

	return rte_malloc_get_socket_stats(0, &stats) == 0 ? stats.heap_allocsz_bytes : 0;
}

void *rb_fib6_create(int nh_bytes, int max_routes, uint32_t groups)
{
	struct rte_fib6_conf conf = {
		.type = RTE_FIB6_TRIE,
		.default_nh = 0,
		.max_routes = max_routes,
		.trie.nh_sz = nh_bytes == 2 ? RTE_FIB6_TRIE_2B : RTE_FIB6_TRIE_4B,
		.trie.num_tbl8 = groups,
	};

	return rte_fib6_create("lookups6", 0, &conf);
}

int rb_fib6_add(void *fib, const uint8_t *ip, uint8_t depth, uint64_t next_hop)
{
	return rte_fib6_add(fib, ip, depth, next_hop);
}

int rb_fib6_delete(void *fib, const uint8_t *ip, uint8_t depth)
{
	return rte_fib6_delete(fib, ip, depth);
}

int rb_fib6_select(void *fib, int vector)
{
	return rte_fib6_select_lookup(fib, vector ? RTE_FIB6_LOOKUP_TRIE_VECTOR_AVX512 : RTE_FIB6_LOOKUP_TRIE_SCALAR);
}

void rb_fib6_lookup(void *fib, uint8_t (*ips)[16], uint64_t *next_hops, unsigned int n)
{
	rte_fib6_lookup_bulk(fib, ips, next_hops, (int)n);
}

void rb_fib6_free(void *fib)
{
	rte_fib6_free(fib);
}

void *rb_lpm6_create(uint32_t max_rules, uint32_t groups)
{
	struct rte_lpm6_config conf = { .max_rules = max_rules, .number_tbl8s = groups };

	return rte_lpm6_create("lookups6", 0, &conf);
}

int rb_lpm6_add(void *lpm, const uint8_t *ip, uint8_t depth, uint32_t next_hop)
{
	return rte_lpm6_add(lpm, ip, depth, next_hop);
}

void rb_lpm6_lookup(void *lpm, uint8_t (*ips)[16], int32_t *next_hops, unsigned int n)
{
	rte_lpm6_lookup_bulk_func(lpm, ips, next_hops, n);
}

void rb_lpm6_free(void *lpm)
{
	rte_lpm6_free(lpm);
}
