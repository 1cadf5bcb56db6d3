//! Every class has a reference, and every example in it runs and does what its comments say.

use elements::harness::{Bench, Setup};
use elements::{classes, element_docs};

#[test]
fn every_class_has_a_reference_with_an_example() {
    for class in classes().iter() {
        let name = class.spec().name;
        let doc = element_docs().iter().find(|d| d.class == name);
        let doc = doc.unwrap_or_else(|| panic!("{name} has no reference"));
        assert!(!doc.examples().is_empty(), "{name} has no example");
        for loss in class.spec().losses {
            assert!(doc.text.contains(&format!("`{loss}`")), "{name} does not explain the loss `{loss}`");
        }
    }
}

/// Lines `// element.handler = value` say what must be read after the run.
#[test]
fn examples_do_what_they_say() {
    for doc in element_docs() {
        for example in doc.examples() {
            for (workers, burst) in [(1, 32), (1, 1), (2, 32)] {
                let setup = Setup { workers, burst, ..Setup::default() };
                check(&example, &setup).unwrap_or_else(|e| {
                    panic!("example of {} with {workers} workers, burst {burst}:\n{example}\n{e}", doc.class)
                });
            }
        }
    }
}

fn check(example: &str, setup: &Setup) -> Result<(), String> {
    let mut bench = Bench::new(example, setup)?;
    bench.run()?;
    let mut checked = 0;
    for line in example.lines() {
        if let Some((name, want)) = line.strip_prefix("// ").and_then(|l| l.split_once(" = ")) {
            let got = bench.read(name);
            if got.trim_end() != want {
                return Err(format!("{name} is {got:?}, not {want:?}; losses: {:?}", bench.losses()));
            }
            checked += 1;
        }
    }
    if checked == 0 {
        return Err("the example expects nothing".to_owned());
    }
    bench.end()
}
