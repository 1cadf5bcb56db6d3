//! What a node asks of the store, and what it is, one answer after the other.

use super::*;

pub(super) const TTL: u64 = 3_000_000_000;

pub(super) fn present(node: u16, whole: bool) -> Present {
    Present { node, candidate: true, whole }
}

pub(super) fn config(me: u16) -> Config {
    Config { me, candidate: true, preferred: 0, ttl: TTL }
}

/// One that has announced itself at time 0.
fn announced(me: u16) -> Election {
    let mut node = Election::new(config(me));
    assert_eq!(node.step(0), Step::Grant);
    node.granted(0, TTL);
    assert_eq!(node.step(0), Step::Announce);
    node.announced();
    assert_eq!(node.step(0), Step::Look);
    node
}

fn held(node: u16, term: u64, ours: bool, present: &[Present]) -> View {
    View { holder: Some(Holder { node, term, ours }), present: present.to_vec() }
}

#[test]
fn the_preferred_one_goes_first_and_then_who_has_whole_tables() {
    let all = [present(0, false), present(1, false), present(2, true)];
    let when = |me: u16, whole: bool, hears: bool, last: Option<u16>| {
        let mut node = announced(me);
        node.set_whole(whole);
        node.announced();
        node.set_hears(hears);
        if let Some(last) = last {
            node.saw(0, held(last, 5, last == me, &all));
        }
        node.saw(100, View { holder: None, present: all.to_vec() });
        match node.step(100) {
            Step::Campaign => 0,
            Step::Wait(when) => when - 100,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!([when(0, false, false, None), when(1, false, false, None)], [STEP, TTL / 3 - 100]);
    assert_eq!(when(2, true, false, Some(3)), 0);
    assert_eq!([when(0, true, false, Some(3)), when(1, false, false, Some(3))], [0, 2 * STEP]);
    assert_eq!([when(2, true, false, Some(2)), when(0, true, false, Some(2))], [0, STEP]);
    assert_eq!(when(2, true, true, Some(3)), TTL / 3 - 100);
}

#[test]
fn a_silent_store_changes_nothing() {
    let mut node = announced(0);
    node.set_whole(true);
    node.announced();
    node.saw(0, held(0, 7, true, &[present(0, true)]));
    assert_eq!(
        (node.role(), node.is_certain(TTL - 1), node.is_certain(TTL)),
        (Role::Control { term: 7 }, true, false)
    );
    let mut now = TTL / 3;
    while now < 100 * TTL {
        match node.step(now) {
            Step::Wait(until) => now = until,
            Step::Renew => node.failed(now),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(node.role(), Role::Control { term: 7 });
    // It has forgotten everything: who was the control node still is.
    node.lease_is_gone();
    assert_eq!(node.step(now), Step::Grant);
    node.granted(now, TTL);
    node.announced();
    node.saw(now, View { holder: None, present: vec![present(0, true), present(1, true)] });
    assert_eq!((node.step(now), node.role()), (Step::Campaign, Role::Control { term: 7 }));
    node.campaigned(now);
    assert_eq!(node.step(now), Step::Look);
    node.saw(now, held(0, 2, true, &[]));
    assert_eq!(node.role(), Role::Control { term: 2 });
    node.superseded(2);
    assert_eq!(node.role(), Role::Control { term: 2 });
    node.superseded(3);
    assert_eq!((node.role(), node.step(now)), (Role::Waiting, Step::Look));
}

#[test]
fn who_is_cut_off_leaves_its_place_to_another() {
    let control = || {
        let mut node = announced(0);
        node.set_whole(true);
        node.announced();
        node.saw(0, held(0, 7, true, &[present(0, true), present(1, true)]));
        node.set_reaches(0, false);
        node
    };
    let limit = LEASES_CUT_OFF * TTL;
    let mut node = control();
    node.renewed(limit, TTL);
    node.saw(limit, held(0, 7, true, &[present(0, true), present(1, true)]));
    node.set_reaches(limit, false);
    assert_eq!((node.step(limit), node.is_candidate()), (Step::Wait(limit + TTL / 3), true));
    node.set_reaches(limit + 1, false);
    assert_eq!((node.step(limit + 1), node.is_candidate()), (Step::Announce, false));
    node.announced();
    // The other one may be cut off just as long, and say so now.
    assert_eq!(node.step(limit + 1), Step::Wait(limit + TTL / 3));
    assert_eq!(node.step(limit + HEARD + 1), Step::Renew);
    node.renewed(limit + HEARD, TTL);
    node.saw(limit + HEARD, held(0, 7, true, &[present(0, true), present(1, true)]));
    assert_eq!(node.step(limit + HEARD + 1), Step::Resign);
    node.lease_is_gone();
    assert!(!node.is_certain(limit + HEARD + 1));
    node.granted(limit + 2, TTL);
    node.announced();
    // The other one has not come yet; then it is gone, too.
    node.saw(limit + 2, View { holder: None, present: vec![present(1, true)] });
    assert_eq!(node.step(limit + 2), Step::Wait(limit + 2 + TTL / 3));
    node.saw(limit + 3, View::default());
    assert_eq!((node.step(limit + 3), node.role()), (Step::Campaign, Role::Control { term: 7 }));
    node.set_reaches(limit + 4, true);
    assert_eq!((node.step(limit + 4), node.is_candidate()), (Step::Announce, true));

    // Nobody else could do better: not there, without tables, no candidate as it is cut off itself.
    let apart = Present { candidate: false, ..present(1, true) };
    for others in [vec![], vec![present(1, false)], vec![apart]] {
        let mut node = control();
        let later = limit + 2 * HEARD;
        node.set_reaches(later, false);
        node.renewed(later, TTL);
        node.announced();
        node.saw(later, held(0, 7, true, &others));
        assert_eq!(node.step(later), Step::Wait(later + TTL / 3), "{others:?}");
    }
}

#[test]
fn what_an_earlier_life_left_is_not_ours() {
    let mut node = announced(0);
    node.saw(0, held(0, 7, false, &[present(0, true)]));
    assert_eq!((node.role(), node.step(0)), (Role::Waiting, Step::Wait(TTL / 3)));
    let spectator = Config { candidate: false, ..config(1) };
    let mut node = Election::new(spectator);
    node.granted(0, TTL);
    node.announced();
    node.saw(0, View::default());
    assert_eq!(node.step(0), Step::Wait(TTL / 3));
}
