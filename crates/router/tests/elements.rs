//! The manual's chapter on elements is made of the texts at the top of their files.

mod common;

use common::run;
use std::fs;
use std::path::Path;

const CHAPTER: &str = "docs/elements.md";

#[test]
fn the_chapter_is_what_the_files_say() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let chapter = fs::read_to_string(root.join(CHAPTER)).unwrap();
    let made = run(&root, &["elements", "--markdown"]);
    assert_eq!(made.err, "");
    assert!(
        made.out == chapter,
        "{CHAPTER} is not what the elements' files say; mend it:\n  \
         cargo run --package router --features dpdk -- elements --markdown >{CHAPTER}"
    );
}
