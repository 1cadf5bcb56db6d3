//! Which life of a node this is: a number that differs from that of the one before, also across restarts of everything.

use cluster::header::INCARNATIONS;
use io::say;
use std::fs;
use std::path::Path;
use std::time::SystemTime;

/// The number for a node that starts now. Those that were used are kept in `directory`.
pub fn next(directory: &Path, cluster: &str, node: &str) -> u8 {
    let file = directory.join(format!("cluster-{cluster}.{node}.life"));
    let last = fs::read_to_string(&file).ok().and_then(|text| text.trim().parse::<u8>().ok());
    // After a boot of the machine nothing is known, and others may remember: one in 16 times the same number.
    let clock =
        || SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |time| time.as_millis() as u8);
    let next = last.unwrap_or_else(clock).wrapping_add(1) % INCARNATIONS;
    if let Err(e) = fs::write(&file, format!("{next}\n")) {
        say!("warning: {}: {e}", file.display());
    }
    next
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lives_differ() {
        let directory = tempfile::tempdir().unwrap();
        let mut lives: Vec<u8> = (0..17).map(|_| next(directory.path(), "c", "a")).collect();
        assert_eq!(lives[0], lives[16]);
        lives.truncate(16);
        lives.sort_unstable();
        assert_eq!(lives, (0..16).collect::<Vec<u8>>());
        assert!(next(directory.path(), "c", "b") < 16);
    }
}
