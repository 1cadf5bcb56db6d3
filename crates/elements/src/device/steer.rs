//! Which worker gets which packet when a device has fewer receive queues than there are workers.

use crate::flow_hash::flow_hash;
use graph::Out;
use packet::Batch;

/// Spreads packets over workers by flow.
#[derive(Debug)]
pub struct Steer {
    workers: Vec<usize>,
    bins: Vec<Batch>,
}

impl Steer {
    /// Spreads over these workers.
    pub fn new(workers: &[usize]) -> Steer {
        Steer { workers: workers.to_vec(), bins: workers.iter().map(|_| Batch::empty()).collect() }
    }

    /// Hands each packet to the worker of its flow, where it leaves by output 0. Packets keep the flow hash.
    pub fn spread(&mut self, batch: Batch, out: &mut Out<'_>) {
        for mut packet in batch {
            if packet.flow_hash() == 0 {
                let hash = flow_hash(packet.data());
                packet.set_flow_hash(hash);
            }
            let place = place(packet.flow_hash(), self.workers.len());
            self.bins[place].push(packet);
        }
        for (worker, bin) in self.workers.iter().zip(&mut self.bins) {
            out.emit_on(*worker, 0, std::mem::take(bin));
        }
    }
}

/// Which of `n` places a hash goes to. The hash is mixed first: a device has chosen the queue by the same hash.
#[inline]
fn place(hash: u32, n: usize) -> usize {
    ((u64::from(hash.wrapping_mul(0x9e37_79b1)) * n as u64) >> 32) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn udp(source: u8, port: u16, fragment: u16) -> Vec<u8> {
        let mut f = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0, 0x45, 0, 0, 32, 0, 1];
        f.extend(fragment.to_be_bytes());
        f.extend([64, 17, 0, 0, 10, 0, 0, source, 10, 0, 1, 1]);
        f.extend(port.to_be_bytes());
        f.extend([0, 53, 0, 12, 0, 0, 1, 2, 3, 4]);
        f
    }

    #[test]
    fn what_belongs_together_hashes_alike() {
        let a = udp(1, 1000, 0);
        let mut other_payload = a.clone();
        other_payload[42..].fill(9);
        assert_eq!(flow_hash(&a), flow_hash(&other_payload));
        assert_ne!(flow_hash(&a), flow_hash(&udp(1, 1001, 0)));
        assert_ne!(flow_hash(&a), flow_hash(&udp(2, 1000, 0)));
        // Fragments: the ports stand only in the first.
        let first = flow_hash(&udp(1, 1000, 0x2000));
        assert_eq!(first, flow_hash(&udp(1, 77, 0x2000)));
        assert_eq!(first, flow_hash(&udp(1, 77, 0x0010)));
        // A tag does not change the flow.
        let mut tagged = a.clone();
        tagged.splice(12..12, [0x81, 0, 0, 7]);
        assert_eq!(flow_hash(&tagged), flow_hash(&a));
    }

    #[test]
    fn flows_spread_evenly() {
        let mut count = [0; 3];
        for port in 0..30_000 {
            count[place(flow_hash(&udp(1, port, 0)), 3)] += 1;
        }
        assert!(count.iter().all(|n| (9_500..10_500).contains(n)), "{count:?}");
    }

    proptest! {
        #[test]
        fn any_bytes_have_a_hash(bytes in proptest::collection::vec(any::<u8>(), 0..80), n in 1..9usize) {
            let hash = flow_hash(&bytes);
            prop_assert!(hash != 0 && place(hash, n) < n);
        }
    }
}
