/*
 * DPDK's own tables for longest-prefix match, for the bench of lookups only: nothing of this gets into the library.
 */
#ifndef ROUTEBRICKS_RIVALS_H
#define ROUTEBRICKS_RIVALS_H

#include <stddef.h>
#include <stdint.h>

struct rte_fib;
struct rte_lpm;

/* Starts EAL; 0, or a negative number. */
int rival_start(int argc, char **argv);

/* How rte_fib looks up. */
enum { RIVAL_SCALAR, RIVAL_AVX512 };

/* A DIR24_8 table with entries of 2 bytes; NULL if there is no memory for it. No route: next hop 0. */
struct rte_fib *rival_fib(uint32_t routes, uint32_t groups);
int rival_fib_select(struct rte_fib *fib, int how);
int rival_fib_add(struct rte_fib *fib, uint32_t address, uint8_t length, uint64_t hop);
int rival_fib_delete(struct rte_fib *fib, uint32_t address, uint8_t length);
/* Looks up n addresses in bursts; the next hops of each burst overwrite those of the one before. */
void rival_fib_lookups(struct rte_fib *fib, const uint32_t *addresses, size_t n, unsigned int burst, uint64_t *hops);

/* A table of rte_lpm; no route: next hop 0. */
struct rte_lpm *rival_lpm(uint32_t routes, uint32_t groups);
int rival_lpm_add(struct rte_lpm *lpm, uint32_t address, uint8_t length, uint32_t hop);
/* As rival_fib_lookups, by rte_lpm_lookupx4; burst must be a multiple of 4. */
void rival_lpm_lookups(const struct rte_lpm *lpm, const uint32_t *addresses, size_t n, unsigned int burst, uint32_t *hops);

/* Bytes that DPDK's heap has given out. */
size_t rival_memory(void);

#endif
