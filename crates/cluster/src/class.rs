//! Classes of traffic: each with an order of its own.
//!
//! The input node chooses the path, so only it knows which packets belong to which class. What the others must know is in the
//! header: whether the packet has a number, and in a fly, whether relays may part it from its flow. That are the four values
//! of [`Header::class`](crate::header::Header::class). All that have numbers are in one stream, whatever their class.

use crate::path::Order;

/// As the cluster's order says; all packets of a cluster without classes.
pub const USUAL: u8 = 0;
/// Without a number: each packet goes its own way.
pub const ALONE: u8 = 1;
/// With a number, though the cluster's order has none.
pub const NUMBERED: u8 = 2;
/// Without a number: relays that choose ways leave flows together.
pub const TOGETHER: u8 = 3;

/// What headers of packets say that go in `order`, in a cluster whose order is `usual`.
pub fn of(order: Order, usual: Order) -> u8 {
    match order {
        _ if order == usual => USUAL,
        Order::Spray => ALONE,
        Order::Strict => NUMBERED,
        Order::Flowlet | Order::SinglePath => TOGETHER,
    }
}

/// Whether packets of a class have numbers, and are put in order at the output node.
pub fn is_numbered(class: u8, usual: Order) -> bool {
    match class {
        USUAL => usual == Order::Strict,
        other => other == NUMBERED,
    }
}

/// The class of the packets that have numbers, if there are any.
pub fn numbered(usual: Order) -> u8 {
    if usual == Order::Strict { USUAL } else { NUMBERED }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::header::CLASSES;

    const ORDERS: [Order; 4] = [Order::Spray, Order::Flowlet, Order::Strict, Order::SinglePath];

    #[test]
    fn who_reads_knows_who_has_a_number() {
        for usual in ORDERS {
            for order in ORDERS {
                let class = of(order, usual);
                assert!(class < CLASSES);
                assert_eq!(is_numbered(class, usual), order == Order::Strict, "{order:?} of {usual:?}");
                if order == Order::Strict {
                    assert_eq!(class, numbered(usual), "one stream");
                }
            }
            assert_eq!(of(usual, usual), USUAL, "who knows of no classes writes the same");
        }
        let all = ORDERS.map(|order| of(order, Order::Strict));
        assert_eq!(all, [ALONE, TOGETHER, USUAL, TOGETHER]);
        assert_eq!(ORDERS.map(|order| of(order, Order::Spray)), [USUAL, TOGETHER, NUMBERED, TOGETHER]);
    }
}
