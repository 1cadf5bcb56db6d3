//! Layers: on which line each box stands, and in which order, so that arrows run down and cross little.

/// A graph cut into layers. Where an arrow skips layers, bends stand in between.
pub(super) struct Layers {
    /// Vertices of each layer, left to right. Vertices below `boxes` are boxes, the others bends.
    pub rows: Vec<Vec<usize>>,
    /// Row of each vertex.
    pub row: Vec<usize>,
    /// Neighbours in the row above, and in the row below.
    pub above: Vec<Vec<Neighbour>>,
    pub below: Vec<Vec<Neighbour>>,
    /// For each arrow its vertices from top to bottom, and whether it runs upward in truth.
    pub paths: Vec<(Vec<usize>, bool)>,
}

/// The other end of a piece of an arrow.
#[derive(Clone, Copy)]
pub(super) struct Neighbour {
    pub vertex: usize,
    /// Where the piece meets this vertex, and where the other: from -0.5, left, to 0.5, right.
    pub here: f64,
    pub there: f64,
}

/// An arrow between boxes, and where on the width of its boxes it leaves and arrives, from -0.5 to 0.5.
#[derive(Clone, Copy)]
pub(super) struct Arrow {
    pub from: usize,
    pub to: usize,
    pub leaves: f64,
    pub arrives: f64,
}

/// Sweeps over the rows when ordering; more hardly help.
const SWEEPS: usize = 12;

/// With more bends than this, arrows are drawn straight.
const MAX_BENDS: usize = 50_000;

pub(super) fn layers(boxes: usize, arrows: &[Arrow]) -> Layers {
    let ends: Vec<(usize, usize)> = arrows.iter().map(|a| (a.from, a.to)).collect();
    let upward = back_edges(boxes, &ends);
    let row = longest_paths(boxes, &ends, &upward);
    let mut layers = Layers {
        rows: vec![Vec::new(); row.iter().max().map_or(0, |m| m + 1)],
        above: vec![Vec::new(); boxes],
        below: vec![Vec::new(); boxes],
        paths: Vec::with_capacity(arrows.len()),
        row,
    };
    let span = |(a, b): (usize, usize)| layers.row[a].abs_diff(layers.row[b]) + 1;
    let bends: usize = ends.iter().map(|&e| span(e)).sum();
    for v in 0..boxes {
        let row = layers.row[v];
        layers.rows[row].push(v);
    }
    for (arrow, &up) in arrows.iter().zip(&upward) {
        let (from, to) = ((arrow.from, arrow.leaves), (arrow.to, arrow.arrives));
        let ((top, _), (bottom, _)) = if up { (to, from) } else { (from, to) };
        let (first, last) = (layers.row[top], layers.row[bottom]);
        // An arrow that runs upward goes around both its boxes, so it is bent beside them too.
        let rows = if up { first..last + 1 } else { first + 1..last };
        let path = layers.path(top, bottom, if bends <= MAX_BENDS { rows } else { 0..0 });
        layers.connect(&path, if up { (0.0, 0.0) } else { (from.1, to.1) });
        layers.paths.push((path, up));
    }
    layers.arrange();
    layers
}

/// Which arrows close a cycle in a depth-first walk: those are drawn upward. Without recursion, since a chain
/// may be long.
fn back_edges(boxes: usize, arrows: &[(usize, usize)]) -> Vec<bool> {
    let mut leaving: Vec<Vec<usize>> = vec![Vec::new(); boxes];
    let mut arriving = vec![0usize; boxes];
    for (i, &(from, to)) in arrows.iter().enumerate() {
        leaving[from].push(i);
        arriving[to] += 1;
    }
    let mut upward = vec![false; arrows.len()];
    // 0 not seen, 1 on the walk, 2 done.
    let mut state = vec![0u8; boxes];
    let sources = (0..boxes).filter(|&v| arriving[v] == 0);
    for start in sources.chain(0..boxes) {
        if state[start] != 0 {
            continue;
        }
        state[start] = 1;
        let mut walk = vec![(start, 0)];
        while let Some((v, next)) = walk.last_mut() {
            let Some(&arrow) = leaving[*v].get(*next) else {
                state[*v] = 2;
                walk.pop();
                continue;
            };
            *next += 1;
            let to = arrows[arrow].1;
            match state[to] {
                0 => {
                    state[to] = 1;
                    walk.push((to, 0));
                }
                1 => upward[arrow] = true,
                _ => {}
            }
        }
    }
    upward
}

/// Each box one row below the lowest of those above it; a box without arrows from above stands right above
/// the highest below it.
fn longest_paths(boxes: usize, arrows: &[(usize, usize)], upward: &[bool]) -> Vec<usize> {
    let mut below: Vec<Vec<usize>> = vec![Vec::new(); boxes];
    let mut waiting = vec![0usize; boxes];
    for (&(from, to), &up) in arrows.iter().zip(upward) {
        if from != to {
            let (top, bottom) = if up { (to, from) } else { (from, to) };
            below[top].push(bottom);
            waiting[bottom] += 1;
        }
    }
    let is_source: Vec<bool> = waiting.iter().map(|&n| n == 0).collect();
    let mut row = vec![0; boxes];
    let mut ready: Vec<usize> = (0..boxes).filter(|&v| is_source[v]).collect();
    while let Some(v) = ready.pop() {
        for &b in &below[v] {
            row[b] = row[b].max(row[v] + 1);
            waiting[b] -= 1;
            if waiting[b] == 0 {
                ready.push(b);
            }
        }
    }
    for v in (0..boxes).filter(|&v| is_source[v]) {
        if let Some(lowest) = below[v].iter().map(|&b| row[b]).min() {
            row[v] = lowest - 1;
        }
    }
    row
}

impl Layers {
    /// A path from box to box with a bend in each of `rows`.
    fn path(&mut self, top: usize, bottom: usize, rows: std::ops::Range<usize>) -> Vec<usize> {
        let mut path = vec![top];
        for row in rows {
            let v = self.row.len();
            self.row.push(row);
            self.rows[row].push(v);
            self.above.push(Vec::new());
            self.below.push(Vec::new());
            path.push(v);
        }
        path.push(bottom);
        path
    }

    /// Makes the vertices of a path neighbours; `at` is where it meets its first and last.
    fn connect(&mut self, path: &[usize], at: (f64, f64)) {
        for (i, pair) in path.windows(2).enumerate() {
            let (top, bottom) = (pair[0], pair[1]);
            if self.row[top] + 1 == self.row[bottom] {
                let out = if i == 0 { at.0 } else { 0.0 };
                let into = if i + 2 == path.len() { at.1 } else { 0.0 };
                self.below[top].push(Neighbour { vertex: bottom, here: out, there: into });
                self.above[bottom].push(Neighbour { vertex: top, here: into, there: out });
            }
        }
    }

    /// Moves each vertex to the mean place of its neighbours, down and up in turn, and keeps the best order.
    fn arrange(&mut self) {
        let mut place = vec![0usize; self.row.len()];
        let note = |rows: &[Vec<usize>], place: &mut [usize]| {
            for row in rows {
                for (i, &v) in row.iter().enumerate() {
                    place[v] = i;
                }
            }
        };
        note(&self.rows, &mut place);
        let mut best = (self.crossings(&place), self.rows.clone());
        for sweep in 0..SWEEPS {
            let down = sweep % 2 == 0;
            let count = self.rows.len();
            for step in 0..count {
                let r = if down { step } else { count - 1 - step };
                let neighbours = if down { &self.above } else { &self.below };
                let mean = |v: usize| {
                    let list = &neighbours[v];
                    if list.is_empty() {
                        place[v] as f64
                    } else {
                        list.iter().map(|n| place[n.vertex] as f64 + n.there).sum::<f64>() / list.len() as f64
                    }
                };
                let mut keyed: Vec<(f64, usize)> = self.rows[r].iter().map(|&v| (mean(v), v)).collect();
                keyed.sort_by(|a, b| a.0.total_cmp(&b.0));
                self.rows[r] = keyed.into_iter().map(|(_, v)| v).collect();
                for (i, &v) in self.rows[r].iter().enumerate() {
                    place[v] = i;
                }
            }
            let crossings = self.crossings(&place);
            if crossings < best.0 {
                best = (crossings, self.rows.clone());
            }
        }
        self.rows = best.1;
    }

    /// How many pairs of arrows cross between neighbouring rows.
    fn crossings(&self, place: &[usize]) -> u64 {
        self.rows.iter().map(|row| self.row_crossings(row, place)).sum()
    }

    /// Counts inversions with a binary indexed tree.
    fn row_crossings(&self, row: &[usize], place: &[usize]) -> u64 {
        let mut ends = Vec::new();
        for &v in row {
            let target = |n: &Neighbour| place[n.vertex] as f64 + n.there;
            let mut pieces: Vec<(f64, f64)> = self.below[v].iter().map(|n| (n.here, target(n))).collect();
            pieces.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
            ends.extend(pieces.into_iter().map(|p| p.1));
        }
        let mut ranks = ends.clone();
        ranks.sort_by(f64::total_cmp);
        ranks.dedup();
        let size = ranks.len();
        let ends = ends.iter().map(|e| ranks.partition_point(|r| r < e));
        let mut tree = vec![0u64; size + 1];
        let mut total = 0;
        for (seen, end) in ends.enumerate() {
            let (mut i, mut not_right) = (end + 1, 0);
            while i > 0 {
                not_right += tree[i];
                i &= i - 1;
            }
            total += seen as u64 - not_right;
            let mut i = end + 1;
            while i <= size {
                tree[i] += 1;
                i += i & i.wrapping_neg();
            }
        }
        total
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layers(boxes: usize, arrows: &[(usize, usize)]) -> Layers {
        let arrow = |&(from, to): &(usize, usize)| Arrow { from, to, leaves: 0.0, arrives: 0.0 };
        super::layers(boxes, &arrows.iter().map(arrow).collect::<Vec<_>>())
    }

    #[test]
    fn ports_decide_the_order_of_boxes_below() {
        let arrow = |to, leaves| Arrow { from: 0, to, leaves, arrives: 0.0 };
        let l = super::layers(4, &[arrow(1, 0.3), arrow(2, 0.0), arrow(3, -0.3)]);
        assert_eq!(l.rows[1], [3, 2, 1]);
    }

    #[test]
    fn rows_follow_the_arrows() {
        let l = layers(4, &[(0, 1), (1, 2), (0, 3), (3, 2), (0, 2)]);
        assert_eq!(&l.row[..4], [0, 1, 2, 1].as_slice());
        let l = layers(3, &[(0, 1), (1, 2), (2, 0)]);
        assert_eq!(&l.row[..3], [0, 1, 2].as_slice());
        assert!(l.paths[2].1, "the arrow that closes the cycle runs upward");
        assert_eq!(l.paths[2].0.len(), 5, "it is bent in each of the three rows");
    }

    #[test]
    fn a_crossing_is_undone() {
        // 0 and 1 point to 3 and 2.
        let l = layers(4, &[(0, 3), (1, 2)]);
        let place = |v: usize| l.rows[l.row[v]].iter().position(|&x| x == v).unwrap();
        assert_eq!(place(0) < place(1), place(3) < place(2));
    }

    #[test]
    fn an_arrow_to_itself_is_no_obstacle() {
        let l = layers(1, &[(0, 0)]);
        assert_eq!((l.rows, l.paths), (vec![vec![0, 1]], vec![(vec![0, 1, 0], true)]));
    }
}
