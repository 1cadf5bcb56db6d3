//! Where the boxes stand and which way the arrows take.

use super::order::{Arrow, Layers, layers};

/// What is to be drawn: sizes of the boxes, and arrows with the ports they use.
pub(super) struct Drawing {
    /// Width of each box.
    pub widths: Vec<f64>,
    /// Number of inputs and outputs of each box.
    pub ports: Vec<(u32, u32)>,
    /// From (box, output) to (box, input).
    pub arrows: Vec<((usize, u32), (usize, u32))>,
}

/// A point of the picture.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Point {
    pub x: f64,
    pub y: f64,
}

/// The finished picture.
pub(super) struct Layout {
    /// Upper left corner of each box.
    pub boxes: Vec<Point>,
    /// For each arrow its points, from the output to the input, and whether it runs upward between them.
    pub arrows: Vec<(Vec<Point>, bool)>,
    pub width: f64,
    pub height: f64,
}

pub(super) const BOX_HEIGHT: f64 = 38.0;
const ROW_GAP: f64 = 46.0;
const BOX_GAP: f64 = 22.0;
const MARGIN: f64 = 16.0;
const ROUNDS: usize = 10;

pub(super) fn layout(drawing: &Drawing) -> Layout {
    let count = drawing.widths.len();
    let at = |port: u32, count: u32| (f64::from(port) + 0.5) / f64::from(count.max(1)) - 0.5;
    let arrow = |&(from, to): &((usize, u32), (usize, u32))| Arrow {
        from: from.0,
        to: to.0,
        leaves: at(from.1, drawing.ports[from.0].1),
        arrives: at(to.1, drawing.ports[to.0].0),
    };
    let layers = layers(count, &drawing.arrows.iter().map(arrow).collect::<Vec<_>>());
    let width = |v: usize| drawing.widths.get(v).copied().unwrap_or(8.0);
    let centers = centers(&layers, &width);
    let top = |row: usize| MARGIN + row as f64 * (BOX_HEIGHT + ROW_GAP);
    let boxes: Vec<Point> =
        (0..count).map(|v| Point { x: centers[v] - width(v) / 2.0, y: top(layers.row[v]) }).collect();
    let arrows = drawing
        .arrows
        .iter()
        .zip(&layers.paths)
        .map(|(&(from, to), (path, upward))| {
            let start = port_point(drawing, &boxes, from, true);
            let end = port_point(drawing, &boxes, to, false);
            let bends = path[1..path.len() - 1].iter().map(|&v| {
                let y = top(layers.row[v]) + BOX_HEIGHT / 2.0;
                Point { x: centers[v], y }
            });
            let mut points = vec![start];
            let first = points.len();
            points.extend(bends);
            if *upward {
                points[first..].reverse();
            }
            points.push(end);
            (points, *upward)
        })
        .collect();
    let right = boxes.iter().zip(&drawing.widths).map(|(p, w)| p.x + w);
    let right = right.chain(centers.iter().copied()).fold(0.0, f64::max);
    Layout { boxes, arrows, width: right + MARGIN, height: top(layers.rows.len()) - ROW_GAP + MARGIN }
}

/// Where an arrow leaves or enters a box.
pub(super) fn port_point(drawing: &Drawing, boxes: &[Point], end: (usize, u32), output: bool) -> Point {
    let corner = boxes[end.0];
    let (inputs, outputs) = drawing.ports[end.0];
    let count = if output { outputs } else { inputs };
    let x = corner.x + drawing.widths[end.0] * (f64::from(end.1) + 0.5) / f64::from(count.max(1));
    Point { x, y: if output { corner.y + BOX_HEIGHT } else { corner.y } }
}

/// Horizontal centres: each vertex is drawn toward its neighbours as far as its row leaves room.
fn centers(layers: &Layers, width: &dyn Fn(usize) -> f64) -> Vec<f64> {
    let mut center = vec![0.0; layers.row.len()];
    for row in &layers.rows {
        let mut x = MARGIN;
        for &v in row {
            center[v] = x + width(v) / 2.0;
            x += width(v) + BOX_GAP;
        }
    }
    for round in 0..ROUNDS {
        let rows: Vec<&Vec<usize>> =
            if round % 2 == 0 { layers.rows.iter().collect() } else { layers.rows.iter().rev().collect() };
        for row in rows {
            let wish = |v: usize| {
                let near = layers.above[v].iter().chain(&layers.below[v]);
                let (sum, n) = near.fold((0.0, 0.0), |(sum, n), u| {
                    let straight = center[u.vertex] + u.there * width(u.vertex) - u.here * width(v);
                    (sum + straight, n + 1.0)
                });
                if n > 0.0 { sum / n } else { center[v] }
            };
            let wishes: Vec<f64> = row.iter().map(|&v| wish(v)).collect();
            for (&v, x) in row.iter().zip(settle(row, &wishes, width)) {
                center[v] = x;
            }
        }
    }
    let left = (0..center.len()).map(|v| center[v] - width(v) / 2.0).fold(f64::INFINITY, f64::min);
    if left.is_finite() {
        center.iter_mut().for_each(|x| *x += MARGIN - left);
    }
    center
}

/// The places nearest to the wishes (least squares) that keep the order and the gaps: neighbours that would
/// overlap are pooled and moved as one.
fn settle(row: &[usize], wishes: &[f64], width: &dyn Fn(usize) -> f64) -> Vec<f64> {
    // With the space to the left of each vertex taken off, places only have to rise.
    let mut offset = Vec::with_capacity(row.len());
    let mut total = 0.0;
    for (i, &v) in row.iter().enumerate() {
        if i > 0 {
            total += (width(row[i - 1]) + width(v)) / 2.0 + BOX_GAP;
        }
        offset.push(total);
    }
    let mut pools: Vec<(f64, usize)> = Vec::new();
    for (wish, offset) in wishes.iter().zip(&offset) {
        let mut pool = (wish - offset, 1);
        while let Some(&(mean, n)) = pools.last() {
            if mean <= pool.0 {
                break;
            }
            let sum = mean * n as f64 + pool.0 * pool.1 as f64;
            pool = (sum / (n + pool.1) as f64, n + pool.1);
            pools.pop();
        }
        pools.push(pool);
    }
    let places = pools.into_iter().flat_map(|(mean, n)| std::iter::repeat_n(mean, n));
    places.zip(offset).map(|(p, o)| p + o).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_keep_their_gap_and_move_as_little_as_possible() {
        let width = |_: usize| 10.0;
        assert_eq!(settle(&[0, 1], &[0.0, 100.0], &width), [0.0, 100.0]);
        assert_eq!(settle(&[0, 1], &[50.0, 50.0], &width), [34.0, 66.0]);
        assert_eq!(settle(&[0, 1, 2], &[90.0, 50.0, 10.0], &width), [18.0, 50.0, 82.0]);
    }

    #[test]
    fn boxes_do_not_overlap() {
        let n = 30;
        let arrows = (1..n).map(|i| ((i / 3, (i % 3) as u32), (i, 0))).collect();
        let drawing = Drawing {
            widths: (0..n).map(|i| 40.0 + (i * 7 % 50) as f64).collect(),
            ports: vec![(1, 3); n],
            arrows,
        };
        let l = layout(&drawing);
        for a in 0..n {
            for b in a + 1..n {
                let (p, q) = (l.boxes[a], l.boxes[b]);
                let apart = p.y != q.y
                    || p.x + drawing.widths[a] + BOX_GAP <= q.x + 1e-6
                    || q.x + drawing.widths[b] + BOX_GAP <= p.x + 1e-6;
                assert!(apart, "{a} {b}");
            }
            assert!(l.boxes[a].x >= 0.0 && l.boxes[a].x + drawing.widths[a] <= l.width);
            assert!(l.boxes[a].y >= 0.0 && l.boxes[a].y + BOX_HEIGHT <= l.height);
        }
    }
}
