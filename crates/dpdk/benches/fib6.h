/* DPDK's own IPv6 lookups, for the bench that sets ours beside them. */
#ifndef ROUTEBRICKS_DPDK_FIB6_H
#define ROUTEBRICKS_DPDK_FIB6_H

#include <stddef.h>
#include <stdint.h>

/* Starts EAL with huge pages of its own and vectors of 512 bits; 0 or a negative number. */
int rb_fib6_eal(const char *lcore, const char *mbytes);
/* Bytes of DPDK's heap in use. */
size_t rb_fib6_heap(void);
/* A TRIE with entries of nh_bytes (2 or 4). */
void *rb_fib6_create(int nh_bytes, int max_routes, uint32_t groups);
int rb_fib6_add(void *fib, const uint8_t *ip, uint8_t depth, uint64_t next_hop);
int rb_fib6_delete(void *fib, const uint8_t *ip, uint8_t depth);
/* vector: AVX-512; 0, or negative when the processor has it not. */
int rb_fib6_select(void *fib, int vector);
void rb_fib6_lookup(void *fib, uint8_t (*ips)[16], uint64_t *next_hops, unsigned int n);
void rb_fib6_free(void *fib);

void *rb_lpm6_create(uint32_t max_rules, uint32_t groups);
int rb_lpm6_add(void *lpm, const uint8_t *ip, uint8_t depth, uint32_t next_hop);
void rb_lpm6_lookup(void *lpm, uint8_t (*ips)[16], int32_t *next_hops, unsigned int n);
void rb_lpm6_free(void *lpm);

#endif
