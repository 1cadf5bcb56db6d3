//! Port lists: which ports of the left side meet which of the right.

use super::body::NodeId;
use crate::ast::Ports;
use crate::source::Span;

/// The ports of one element on one side of an arrow.
#[derive(Clone, Debug)]
pub(super) struct Side {
    pub node: NodeId,
    pub ports: PortSet,
    /// The place of the port list, or of the element if there is none.
    pub span: Span,
}

impl Side {
    /// What it costs to look at this side.
    pub fn cost(&self) -> usize {
        self.ports.fixed_count()
    }
}

/// Which ports.
#[derive(Clone, Debug)]
pub(super) enum PortSet {
    /// None written: port 0, or as many as needed in `=>`.
    Default,
    /// These, and if `open` is given as many as needed from there on.
    List { fixed: Vec<u32>, open: Option<u32> },
}

impl PortSet {
    pub fn written(ports: &Ports) -> PortSet {
        let fixed = ports.ranges.iter().flat_map(|&(a, b)| a..=b).collect();
        PortSet::List { fixed, open: ports.open }
    }

    /// `[0..count-1]`.
    pub fn first(count: u32) -> PortSet {
        PortSet::List { fixed: (0..count).collect(), open: None }
    }

    fn fixed_count(&self) -> usize {
        match self {
            PortSet::Default => 1,
            PortSet::List { fixed, .. } => fixed.len(),
        }
    }

    fn is_open(&self) -> bool {
        matches!(self, PortSet::List { open: Some(_), .. })
    }
}

/// Why two sides cannot be joined, in Click's words.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Mismatch {
    ManyToMany,
    TwoExpandable,
    Counts(usize, usize),
}

impl Mismatch {
    pub fn message(&self) -> String {
        let plural = |n: usize, word: &str| format!("{n} {word}{}", if n == 1 { "" } else { "s" });
        match self {
            Mismatch::ManyToMany => "syntax error: many-to-many connections require '=>'".to_string(),
            Mismatch::TwoExpandable => "at most one expandable port allowed per connection".to_string(),
            Mismatch::Counts(outputs, inputs) => {
                format!(
                    "connection mismatch: {} connected to {}",
                    plural(*outputs, "output"),
                    plural(*inputs, "input")
                )
            }
        }
    }
}

/// A port of a node, as index into the sides and port number.
pub(super) type Slot = (usize, u32);

/// Pairs the ports of `left` and `right`. `budget` bounds the number of pairs; beyond it the result is cut.
pub(super) fn pair(
    left: &[Side],
    right: &[Side],
    parallel: bool,
    budget: usize,
) -> Result<Vec<(Slot, Slot)>, Mismatch> {
    let open = left.iter().chain(right).filter(|s| s.ports.is_open()).count();
    if open > 1 {
        return Err(Mismatch::TwoExpandable);
    }
    if parallel {
        let (l, r) = (side_count(left), side_count(right));
        let (outputs, inputs) = (enumerate(left, r, true), enumerate(right, l, true));
        if outputs.len() != inputs.len() {
            return Err(Mismatch::Counts(outputs.len(), inputs.len()));
        }
        return Ok(outputs.into_iter().zip(inputs).take(budget).collect());
    }
    let (outputs, inputs) = (enumerate(left, 1, false), enumerate(right, 1, false));
    match (outputs.as_slice(), inputs.as_slice()) {
        ([output], _) => Ok(inputs.iter().map(|i| (*output, *i)).take(budget).collect()),
        (_, [input]) => Ok(outputs.iter().map(|o| (*o, *input)).take(budget).collect()),
        ([], _) | (_, []) => Err(Mismatch::Counts(outputs.len(), inputs.len())),
        _ => Err(Mismatch::ManyToMany),
    }
}

fn side_count(sides: &[Side]) -> usize {
    sides.iter().map(|s| s.ports.fixed_count()).sum()
}

/// The ports of a side in order. An open list grows until there are `wanted`; so does a single element without
/// a list, if `grow`.
fn enumerate(sides: &[Side], wanted: usize, grow: bool) -> Vec<Slot> {
    let missing = wanted.saturating_sub(side_count(sides)) as u32;
    let mut all = Vec::new();
    for (i, side) in sides.iter().enumerate() {
        match &side.ports {
            PortSet::Default => {
                let more = if grow && sides.len() == 1 { missing } else { 0 };
                all.extend((0..=more).map(|p| (i, p)));
            }
            PortSet::List { fixed, open } => {
                all.extend(fixed.iter().map(|&p| (i, p)));
                if let Some(from) = *open {
                    all.extend((from..from.saturating_add(missing)).map(|p| (i, p)));
                }
            }
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn side(ports: PortSet) -> Side {
        Side { node: 0, ports, span: Span::default() }
    }
    fn list(fixed: &[u32], open: Option<u32>) -> Side {
        side(PortSet::List { fixed: fixed.to_vec(), open })
    }
    fn default() -> Side {
        side(PortSet::Default)
    }
    fn ports(left: &[Side], right: &[Side], parallel: bool) -> Result<Vec<(u32, u32)>, Mismatch> {
        Ok(pair(left, right, parallel, 1000)?.into_iter().map(|((_, a), (_, b))| (a, b)).collect())
    }

    #[test]
    fn arrows_join_one_to_many_and_many_to_one() {
        assert_eq!(ports(&[default()], &[default()], false), Ok(vec![(0, 0)]));
        assert_eq!(ports(&[list(&[1, 2], None)], &[default()], false), Ok(vec![(1, 0), (2, 0)]));
        assert_eq!(ports(&[default()], &[default(), list(&[3], None)], false), Ok(vec![(0, 0), (0, 3)]));
        let two = || [default(), default()];
        assert_eq!(ports(&two(), &two(), false), Err(Mismatch::ManyToMany));
    }

    #[test]
    fn double_arrows_join_one_to_one() {
        let three = || [default(), default(), default()];
        assert_eq!(ports(&[list(&[0, 2, 3], None)], &three(), true), Ok(vec![(0, 0), (2, 0), (3, 0)]));
        assert_eq!(ports(&[default()], &three(), true), Ok(vec![(0, 0), (1, 0), (2, 0)]));
        assert_eq!(ports(&[default()], &[default()], true), Ok(vec![(0, 0)]));
        assert_eq!(ports(&[list(&[5], Some(7))], &three(), true), Ok(vec![(5, 0), (7, 0), (8, 0)]));
        assert_eq!(ports(&[list(&[0, 1], None)], &three(), true), Err(Mismatch::Counts(2, 3)));
        assert_eq!(Mismatch::Counts(2, 3).message(), "connection mismatch: 2 outputs connected to 3 inputs");
    }

    #[test]
    fn one_side_may_be_open() {
        let open = || list(&[], Some(0));
        assert_eq!(ports(&[open()], &[open()], true), Err(Mismatch::TwoExpandable));
        assert_eq!(ports(&[open()], &[default()], false), Ok(vec![(0, 0)]));
    }
}
