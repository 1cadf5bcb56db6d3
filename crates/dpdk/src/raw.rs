//! Raw bindings to DPDK and to the shim, and the proof that `packet::Header` is the installed `struct rte_mbuf`.
#![allow(
    unsafe_code,
    missing_docs,
    non_camel_case_types,
    non_upper_case_globals,
    dead_code,
    unused_qualifications,
    clippy::all,
    clippy::undocumented_unsafe_blocks,
    clippy::semicolon_if_nothing_returned,
    clippy::unwrap_used,
    reason = "made by bindgen"
)]

use packet::Header;

include!(concat!(env!("OUT_DIR"), "/bindings.rs"));

/// Bytes of a field of the header.
const fn size_of_field<T>(_: fn(&Header) -> &T) -> usize {
    size_of::<T>()
}

/// Compares offset and size of each field with the installed headers.
macro_rules! same_layout {
    ($($field:ident $offset:ident $size:ident;)*) => {
        const _: () = {
            assert!(size_of::<Header>() == RB_SIZE_mbuf as usize);
            $(
                assert!(std::mem::offset_of!(Header, $field) == $offset as usize);
                assert!(size_of_field(|h| &h.$field) == $size as usize);
            )*
        };
    };
}

same_layout! {
    buf_addr RB_OFFSET_buf_addr RB_SIZE_buf_addr;
    buf_iova RB_OFFSET_buf_iova RB_SIZE_buf_iova;
    data_off RB_OFFSET_data_off RB_SIZE_data_off;
    refcnt RB_OFFSET_refcnt RB_SIZE_refcnt;
    nb_segs RB_OFFSET_nb_segs RB_SIZE_nb_segs;
    port RB_OFFSET_port RB_SIZE_port;
    ol_flags RB_OFFSET_ol_flags RB_SIZE_ol_flags;
    packet_type RB_OFFSET_packet_type RB_SIZE_packet_type;
    pkt_len RB_OFFSET_pkt_len RB_SIZE_pkt_len;
    data_len RB_OFFSET_data_len RB_SIZE_data_len;
    vlan_tci RB_OFFSET_vlan_tci RB_SIZE_vlan_tci;
    hash_lo RB_OFFSET_hash_lo RB_SIZE_hash_lo;
    hash_hi RB_OFFSET_hash_hi RB_SIZE_hash_hi;
    vlan_tci_outer RB_OFFSET_vlan_tci_outer RB_SIZE_vlan_tci_outer;
    buf_len RB_OFFSET_buf_len RB_SIZE_buf_len;
    pool RB_OFFSET_pool RB_SIZE_pool;
    next RB_OFFSET_next RB_SIZE_next;
    tx_offload RB_OFFSET_tx_offload RB_SIZE_tx_offload;
    shinfo RB_OFFSET_shinfo RB_SIZE_shinfo;
    priv_size RB_OFFSET_priv_size RB_SIZE_priv_size;
    timesync RB_OFFSET_timesync RB_SIZE_timesync;
    dynfield1 RB_OFFSET_dynfield1 RB_SIZE_dynfield1;
}
