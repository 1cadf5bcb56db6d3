//! "Did you mean": the known name nearest to a mistyped one.

/// Names longer than this are not compared.
const MAX_NAME: usize = 64;

/// The candidate nearest to `name` by edit distance (insert, delete, replace, swap neighbours), if it is near
/// enough: at most a third of the letters differ. Letter case counts half.
pub fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if name.is_empty() || name.len() > MAX_NAME {
        return None;
    }
    let wanted: Vec<char> = name.chars().collect();
    // Distances are doubled so that a change of case can cost one half.
    // In names of one or two letters only the case may differ.
    let limit = 2 * (wanted.len() / 3) + usize::from(wanted.len() < 3);
    let mut best: Option<(usize, &str)> = None;
    for candidate in candidates {
        if candidate == name || candidate.len() > MAX_NAME {
            continue;
        }
        let have: Vec<char> = candidate.chars().collect();
        if have.len().abs_diff(wanted.len()) * 2 > limit {
            continue;
        }
        let d = distance(&wanted, &have);
        if d <= limit && best.is_none_or(|(b, c)| (d, candidate) < (b, c)) {
            best = Some((d, candidate));
        }
    }
    best.map(|(_, c)| c)
}

fn distance(a: &[char], b: &[char]) -> usize {
    let cost = |x: char, y: char| match () {
        () if x == y => 0,
        () if x.eq_ignore_ascii_case(&y) => 1,
        () => 2,
    };
    let mut before: Vec<usize> = vec![0; b.len() + 1];
    let mut last: Vec<usize> = (0..=b.len()).map(|i| 2 * i).collect();
    for i in 1..=a.len() {
        let mut row = vec![2 * i; b.len() + 1];
        for j in 1..=b.len() {
            let mut d = (last[j - 1] + cost(a[i - 1], b[j - 1])).min(last[j] + 2).min(row[j - 1] + 2);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                d = d.min(before[j - 2] + 2);
            }
            row[j] = d;
        }
        before = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_names_are_found() {
        let names = ["CheckIPHeader", "CheckIPHeader2", "Counter", "Queue"];
        assert_eq!(nearest("CheckIPHeadr", names), Some("CheckIPHeader"));
        assert_eq!(nearest("queue", names), Some("Queue"));
        assert_eq!(nearest("Cuonter", names), Some("Counter"));
        assert_eq!(nearest("Discard", names), None);
        assert_eq!(nearest("", names), None);
        assert_eq!(nearest("a", ["b", "A"]), Some("A"));
        assert_eq!(nearest("ab", ["ac", "abc"]), None);
    }
}
