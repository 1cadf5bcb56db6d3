//! Huge pages for the time of a run.

use std::fs;
use std::path::{Path, PathBuf};

const FOLDER: &str = "/sys/kernel/mm/hugepages/hugepages-2048kB";
const PAGE: u64 = 2 << 20;

/// Which memory the programs use.
#[derive(Debug)]
pub enum Memory {
    /// Huge pages; with the number to restore where pages were added.
    Huge(#[expect(dead_code, reason = "held until it is dropped")] Option<Restore>),
    /// Ordinary pages: about twice as slow.
    Ordinary,
}

/// Sets the number of huge pages back when dropped.
#[derive(Debug)]
pub struct Restore {
    file: PathBuf,
    pages: u64,
}

impl Memory {
    /// Huge pages of 2 MB for `bytes`: those that are free, or more if we may add some.
    pub fn obtain(bytes: u64) -> Memory {
        obtain(Path::new(FOLDER), bytes.div_ceil(PAGE))
    }

    /// EAL arguments that say so.
    pub fn eal_args(&self, megabytes: u64) -> Vec<String> {
        match self {
            Memory::Huge(_) => vec!["--in-memory".to_owned()],
            Memory::Ordinary => {
                vec!["--no-huge".to_owned(), "--no-shconf".to_owned(), format!("-m{megabytes}")]
            }
        }
    }

    /// For people.
    pub fn describe(&self) -> &'static str {
        match self {
            Memory::Huge(_) => "huge pages of 2 MB",
            Memory::Ordinary => "ordinary pages",
        }
    }
}

fn obtain(folder: &Path, needed: u64) -> Memory {
    let number = |name: &str| fs::read_to_string(folder.join(name)).ok()?.trim().parse::<u64>().ok();
    let (Some(pages), Some(free)) = (number("nr_hugepages"), number("free_hugepages")) else {
        return Memory::Ordinary;
    };
    if free >= needed {
        return Memory::Huge(None);
    }
    let file = folder.join("nr_hugepages");
    if fs::write(&file, (pages + needed - free).to_string()).is_err() {
        return Memory::Ordinary;
    }
    let restore = Restore { file, pages };
    // The kernel gives as many as it finds.
    if number("free_hugepages").is_some_and(|free| free >= needed) {
        Memory::Huge(Some(restore))
    } else {
        Memory::Ordinary
    }
}

impl Drop for Restore {
    fn drop(&mut self) {
        if let Err(e) = fs::write(&self.file, self.pages.to_string()) {
            eprintln!("warning: {} could not be set back to {}: {e}", self.file.display(), self.pages);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_added_where_they_are_missing_and_taken_back() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str| folder.path().join(name);
        assert!(matches!(obtain(folder.path(), 1), Memory::Ordinary), "no such pages here");
        fs::write(file("nr_hugepages"), "10\n").unwrap();
        fs::write(file("free_hugepages"), "4\n").unwrap();
        assert!(matches!(obtain(folder.path(), 4), Memory::Huge(None)));
        // No kernel answers here: what is free stays as it is, so the attempt fails and is undone.
        assert!(matches!(obtain(folder.path(), 5), Memory::Ordinary));
        assert_eq!(fs::read_to_string(file("nr_hugepages")).unwrap(), "10");
    }
}
