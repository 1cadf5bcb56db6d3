#include <string.h>

#include "shim.h"

/* In the order of the words of the crate io (RssFields::known). */
static const uint64_t rb_rss_words[] = {
	RTE_ETH_RSS_IP,
	RTE_ETH_RSS_TCP,
	RTE_ETH_RSS_UDP,
	RTE_ETH_RSS_SCTP,
	RTE_ETH_RSS_TUNNEL,
	RTE_ETH_RSS_LEVEL_INNERMOST,
	RTE_ETH_RSS_L2_PAYLOAD | RTE_ETH_RSS_ETH,
	RTE_ETH_RSS_VLAN,
	RTE_ETH_RSS_MPLS,
	RTE_ETH_RSS_GTPU | RTE_ETH_RSS_PFCP,
	RTE_ETH_RSS_ESP | RTE_ETH_RSS_AH,
	RTE_ETH_RSS_L2TPV3 | RTE_ETH_RSS_L2TPV2,
	RTE_ETH_RSS_PPPOE,
};

static const struct {
	uint64_t bit;
	const char *name;
} rb_rss_names[] = {
	{ RTE_ETH_RSS_IPV4, "ipv4" },
	{ RTE_ETH_RSS_FRAG_IPV4, "ipv4-frag" },
	{ RTE_ETH_RSS_NONFRAG_IPV4_TCP, "ipv4-tcp" },
	{ RTE_ETH_RSS_NONFRAG_IPV4_UDP, "ipv4-udp" },
	{ RTE_ETH_RSS_NONFRAG_IPV4_SCTP, "ipv4-sctp" },
	{ RTE_ETH_RSS_NONFRAG_IPV4_OTHER, "ipv4-other" },
	{ RTE_ETH_RSS_IPV6, "ipv6" },
	{ RTE_ETH_RSS_FRAG_IPV6, "ipv6-frag" },
	{ RTE_ETH_RSS_NONFRAG_IPV6_TCP, "ipv6-tcp" },
	{ RTE_ETH_RSS_NONFRAG_IPV6_UDP, "ipv6-udp" },
	{ RTE_ETH_RSS_NONFRAG_IPV6_SCTP, "ipv6-sctp" },
	{ RTE_ETH_RSS_NONFRAG_IPV6_OTHER, "ipv6-other" },
	{ RTE_ETH_RSS_IPV6_EX, "ipv6-ex" },
	{ RTE_ETH_RSS_IPV6_TCP_EX, "ipv6-tcp-ex" },
	{ RTE_ETH_RSS_IPV6_UDP_EX, "ipv6-udp-ex" },
	{ RTE_ETH_RSS_L2_PAYLOAD, "l2-payload" },
	{ RTE_ETH_RSS_ETH, "eth" },
	{ RTE_ETH_RSS_S_VLAN, "s-vlan" },
	{ RTE_ETH_RSS_C_VLAN, "c-vlan" },
	{ RTE_ETH_RSS_PORT, "port" },
	{ RTE_ETH_RSS_VXLAN, "vxlan" },
	{ RTE_ETH_RSS_GENEVE, "geneve" },
	{ RTE_ETH_RSS_NVGRE, "nvgre" },
	{ RTE_ETH_RSS_MPLS, "mpls" },
	{ RTE_ETH_RSS_GTPU, "gtpu" },
	{ RTE_ETH_RSS_PFCP, "pfcp" },
	{ RTE_ETH_RSS_ESP, "esp" },
	{ RTE_ETH_RSS_AH, "ah" },
	{ RTE_ETH_RSS_L2TPV3, "l2tpv3" },
	{ RTE_ETH_RSS_L2TPV2, "l2tpv2" },
	{ RTE_ETH_RSS_PPPOE, "pppoe" },
	{ RTE_ETH_RSS_ECPRI, "ecpri" },
	{ RTE_ETH_RSS_IPV4_CHKSUM, "ipv4-checksum" },
	{ RTE_ETH_RSS_L4_CHKSUM, "l4-checksum" },
	{ RTE_ETH_RSS_LEVEL_OUTERMOST, "outermost" },
	{ RTE_ETH_RSS_LEVEL_INNERMOST, "innermost" },
	{ RTE_ETH_RSS_L3_SRC_ONLY, "l3-src-only" },
	{ RTE_ETH_RSS_L3_DST_ONLY, "l3-dst-only" },
	{ RTE_ETH_RSS_L4_SRC_ONLY, "l4-src-only" },
	{ RTE_ETH_RSS_L4_DST_ONLY, "l4-dst-only" },
};

uint32_t rb_rss_to_words(uint64_t hashes)
{
	uint32_t words = 0;
	for (unsigned int i = 0; i < RTE_DIM(rb_rss_words); i++)
		if ((hashes & rb_rss_words[i]) != 0)
			words |= 1U << i;
	return words;
}

uint64_t rb_rss_of_words(uint32_t words)
{
	uint64_t hashes = 0;
	for (unsigned int i = 0; i < RTE_DIM(rb_rss_words); i++)
		if ((words & 1U << i) != 0)
			hashes |= rb_rss_words[i];
	return hashes;
}

const char *rb_rss_name(unsigned int i, uint64_t *bit)
{
	if (i >= RTE_DIM(rb_rss_names))
		return NULL;
	*bit = rb_rss_names[i].bit;
	return rb_rss_names[i].name;
}

int rb_rss_get(uint16_t port, uint64_t *hashes, uint8_t *key, uint8_t *key_len)
{
	struct rte_eth_rss_conf conf;
	memset(&conf, 0, sizeof(conf));
	conf.rss_key = key;
	conf.rss_key_len = *key_len;
	int error = rte_eth_dev_rss_hash_conf_get(port, &conf);
	if (error != 0)
		return error;
	*hashes = conf.rss_hf;
	/* Drivers that do not have the key leave the length or set it to 0. */
	if (conf.rss_key_len < *key_len)
		*key_len = conf.rss_key_len;
	return 0;
}

int rb_rss_set(uint16_t port, const struct rb_rss *rss)
{
	struct rte_eth_dev_info info;
	struct rte_eth_rss_conf conf;
	int error = rte_eth_dev_info_get(port, &info);
	if (error != 0)
		return error;
	memset(&conf, 0, sizeof(conf));
	/* Drivers read it. */
	conf.rss_key = (uint8_t *)(uintptr_t)rss->key;
	conf.rss_key_len = rss->key_len;
	conf.rss_hf = info.flow_type_rss_offloads & rb_rss_of_words(rss->hashes);
	return rte_eth_dev_rss_hash_update(port, &conf);
}

/* Longest table, and the groups that it takes. */
enum { RB_TABLE = 4096, RB_GROUPS = RB_TABLE / RTE_ETH_RETA_GROUP_SIZE };

/* All entries of a table that is set or read. */
static int rb_groups(struct rte_eth_rss_reta_entry64 *groups, uint16_t size)
{
	if (size == 0 || size > RB_TABLE)
		return -EINVAL;
	memset(groups, 0, RB_GROUPS * sizeof(*groups));
	for (unsigned int i = 0; i < size; i++)
		groups[i / RTE_ETH_RETA_GROUP_SIZE].mask |= 1ULL << i % RTE_ETH_RETA_GROUP_SIZE;
	return 0;
}

int rb_table_set(uint16_t port, uint16_t size, uint16_t queues)
{
	struct rte_eth_rss_reta_entry64 groups[RB_GROUPS];
	int error = queues == 0 ? -EINVAL : rb_groups(groups, size);
	if (error != 0)
		return error;
	for (unsigned int i = 0; i < size; i++)
		groups[i / RTE_ETH_RETA_GROUP_SIZE].reta[i % RTE_ETH_RETA_GROUP_SIZE] = (uint16_t)(i % queues);
	return rte_eth_dev_rss_reta_update(port, groups, size);
}

int rb_table_get(uint16_t port, uint16_t *table, uint16_t size)
{
	struct rte_eth_rss_reta_entry64 groups[RB_GROUPS];
	int error = rb_groups(groups, size);
	if (error == 0)
		error = rte_eth_dev_rss_reta_query(port, groups, size);
	if (error != 0)
		return error;
	for (unsigned int i = 0; i < size; i++)
		table[i] = groups[i / RTE_ETH_RETA_GROUP_SIZE].reta[i % RTE_ETH_RETA_GROUP_SIZE];
	return 0;
}
