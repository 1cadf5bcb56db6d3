//! Which ranges of addresses are wanted.

use crate::prefix::{Address, Prefix};

/// Which ranges are wanted.
#[derive(Clone, Copy)]
pub(super) struct Wanted<A> {
    /// Those with addresses from `first` ...
    pub first: A,
    /// ... to `last`, and of them ...
    pub last: A,
    /// ... if this is given, only those that a route decides, or would decide.
    own: Option<Own<A>>,
}

/// See [`Rib::own_ranges`](super::Rib::own_ranges).
#[derive(Clone, Copy)]
struct Own<A> {
    prefix: Prefix<A>,
    whole: u8,
}

impl<A: Address> Wanted<A> {
    /// All between two addresses.
    pub fn between(first: A, last: A) -> Wanted<A> {
        Wanted { first, last, own: None }
    }

    /// Those that the route of `prefix` decides; of areas of `whole` bits within which routes part, all.
    pub fn own(prefix: Prefix<A>, whole: u8) -> Wanted<A> {
        Wanted { own: Some(Own { prefix, whole }), ..Wanted::between(prefix.first(), prefix.last()) }
    }

    /// The same addresses, whatever decides.
    pub fn all(self) -> Wanted<A> {
        Wanted { own: None, ..self }
    }

    /// True when nothing in `area` is wanted.
    #[inline]
    pub fn is_beside(self, area: Prefix<A>) -> bool {
        area.last() < self.first || self.last < area.first()
    }

    /// True when what the route of `prefix` decides is wanted.
    #[inline]
    pub fn decided_by(self, prefix: Prefix<A>) -> bool {
        self.own.is_none_or(|own| own.prefix == prefix)
    }

    /// The part of `area` around `prefix`, which has routes, that is dealt with at once; true when it is wanted whole.
    #[inline]
    pub fn part(self, area: Prefix<A>, prefix: Prefix<A>) -> (Prefix<A>, bool) {
        match self.own {
            Some(own) if prefix.len() > own.whole => {
                (Prefix::truncated(prefix.first(), own.whole.max(area.len())), true)
            }
            _ => (prefix, false),
        }
    }
}
