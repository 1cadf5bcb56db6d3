//! Whatever happens on the way, in any order.

use crate::contents::{all, lookups};
use crate::control_node::{Control, MOST_INTERFACES, VRFS};
use crate::node::Node;
use control::replicate::Log;
use proptest::prelude::*;

/// What happens.
#[derive(Clone, Debug)]
pub enum Step {
    Routes(Vec<(u8, u8, u32)>),
    Neighbour(u32, Option<u8>),
    Group(u32, Vec<(u32, u32)>),
    Links(Vec<u16>),
    /// An interface is there, with this MTU and in this VRF, or not.
    Interface(u16, Option<(u32, Option<u8>)>),
    VrfRoutes(u8, Vec<(u8, u8, u32)>),
    /// A VRF is another one from now on.
    Rename(u8),
    Connect,
    Disconnect,
    Take(usize),
    CatchUp,
    Retire,
}

fn step() -> impl Strategy<Value = Step> {
    let route = || (0..12u8, 0..7u8, 0..10u32);
    let interface = (0..MOST_INTERFACES, prop::option::of((1280..1283u32, prop::option::of(0..VRFS))));
    prop_oneof![
        6 => prop::collection::vec(route(), 1..6).prop_map(Step::Routes),
        3 => interface.prop_map(|(number, now)| Step::Interface(number, now)),
        3 => (0..VRFS, prop::collection::vec(route(), 1..6)).prop_map(|(vrf, all)| Step::VrfRoutes(vrf, all)),
        1 => (0..VRFS).prop_map(Step::Rename),
        2 => (0..10u32, prop::option::of(any::<u8>())).prop_map(|(port, mac)| Step::Neighbour(port, mac)),
        1 => (20..23u32, prop::collection::vec((0..10u32, 1..4u32), 0..4))
            .prop_map(|(port, members)| Step::Group(port, members)),
        1 => prop::collection::vec(1280..9000u16, 0..4).prop_map(Step::Links),
        2 => Just(Step::Connect),
        1 => Just(Step::Disconnect),
        4 => (1..400usize).prop_map(Step::Take),
        1 => Just(Step::CatchUp),
        1 => Just(Step::Retire),
    ]
}

/// Runs the steps; at the end the node's tables are the control node's.
fn run(steps: &[Step], room: usize) {
    let mut control = Control::new();
    control.publish(&Step::Routes(vec![(3, 4, 1), (0, 0, 2)]));
    let mut log = Log::new(&control.tables, room);
    let mut node = Node::new();
    for step in steps {
        match step {
            Step::Connect => drop(node.connect(&log)),
            Step::Disconnect => node.disconnect(),
            Step::Take(bytes) => node.take(*bytes),
            Step::CatchUp => node.catch_up(),
            Step::Retire => control.retire(),
            step => control.publish(step),
        }
    }
    if node.feed.is_none() {
        node.connect(&log);
    }
    node.catch_up();
    assert!(node.replica.is_synced());
    assert_eq!(all(&node.tables), all(&control.tables));
    assert_eq!(lookups(&node.tables), lookups(&control.tables));
    control.start_anew();
    log = Log::new(&control.tables, room);
    let before = lookups(&node.tables);
    assert_eq!(node.connect(&log), None);
    while node.has_more() {
        node.take(50);
        for (before, now) in before.iter().zip(lookups(&node.tables)) {
            // What is the same before and after is never anything else, but for groups, which went.
            if before.0.is_none_or(|hop| hop.port < 20) {
                assert_eq!(before, &now);
            }
        }
    }
    assert_eq!(all(&node.tables), all(&control.tables));
    assert_eq!(lookups(&node.tables), lookups(&control.tables));
}

proptest! {
    #[test]
    fn a_node_has_what_the_control_node_has(steps in prop::collection::vec(step(), 1..60)) {
        run(&steps, Log::ROOM);
    }

    #[test]
    fn also_where_hardly_anything_can_be_kept(steps in prop::collection::vec(step(), 1..60), room in 0..2000usize) {
        run(&steps, room);
    }
}
