//! Huge pages for the time of a run.

use std::fs;
use std::path::{Path, PathBuf};

const FOLDER: &str = "/sys/kernel/mm/hugepages/hugepages-2048kB";
const PAGE: u64 = 2 << 20;

/// Which memory the programs use.
#[derive(Debug)]
pub struct Memory {
    /// Huge pages of 2 MB; else ordinary pages, which are about twice as slow.
    huge: bool,
    /// Where pages were added, they go back with this.
    _added: Option<Restore>,
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

    /// Ordinary pages.
    pub fn ordinary() -> Memory {
        Memory { huge: false, _added: None }
    }

    /// EAL arguments that say so.
    pub fn eal_args(&self, megabytes: u64) -> Vec<String> {
        if self.huge {
            vec!["--in-memory".to_owned()]
        } else {
            vec!["--no-huge".to_owned(), "--no-shconf".to_owned(), format!("-m{megabytes}")]
        }
    }

    /// Whether they are huge.
    pub fn is_huge(&self) -> bool {
        self.huge
    }

    /// For people.
    pub fn describe(&self) -> &'static str {
        if self.huge { "huge pages of 2 MB" } else { "ordinary pages" }
    }
}

fn obtain(folder: &Path, needed: u64) -> Memory {
    let number = |name: &str| fs::read_to_string(folder.join(name)).ok()?.trim().parse::<u64>().ok();
    let (Some(pages), Some(free)) = (number("nr_hugepages"), number("free_hugepages")) else {
        return Memory::ordinary();
    };
    if free >= needed {
        return Memory { huge: true, _added: None };
    }
    let file = folder.join("nr_hugepages");
    if fs::write(&file, (pages + needed - free).to_string()).is_err() {
        return Memory::ordinary();
    }
    let added = Restore { file, pages };
    // The kernel gives as many as it finds.
    if number("free_hugepages").is_some_and(|free| free >= needed) {
        Memory { huge: true, _added: Some(added) }
    } else {
        Memory::ordinary()
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
        assert!(!obtain(folder.path(), 1).huge, "no such pages here");
        fs::write(file("nr_hugepages"), "10\n").unwrap();
        fs::write(file("free_hugepages"), "4\n").unwrap();
        assert!(obtain(folder.path(), 4).huge);
        // No kernel answers here: what is free stays as it is, so the attempt fails and is undone.
        assert!(!obtain(folder.path(), 5).huge);
        assert_eq!(fs::read_to_string(file("nr_hugepages")).unwrap(), "10");
    }
}
