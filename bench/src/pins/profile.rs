//! What callgrind writes: the cost of each function and its calls, as its manual describes the format.
//!
//! `ob=`, `fn=` name the object and the function that the lines of cost below belong to, `cob=`, `cfn=` those that it
//! calls. A name is written once, `(7) name`, and is `(7)` from then on. The line behind `calls=` is the cost of what was
//! called, which has lines of its own.

use std::collections::BTreeMap;

/// A function: the file of its program or library, and its name.
pub type Function = (String, String);

/// Costs and calls of one thread during one part of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Profile {
    /// Instructions of each function, without those of what it calls.
    pub instructions: BTreeMap<Function, u64>,
    /// Calls from the first one's object of the second one.
    pub calls: BTreeMap<(String, Function), u64>,
}

/// Names by number, of objects or of functions.
#[derive(Default)]
struct Names(BTreeMap<String, String>);

impl Names {
    /// The name that `text` gives or refers to.
    fn get(&mut self, text: &str) -> String {
        let Some((number, name)) = text.strip_prefix('(').and_then(|rest| rest.split_once(')')) else {
            return text.to_owned();
        };
        let name = name.trim_start();
        if name.is_empty() {
            return self.0.get(number).cloned().unwrap_or_default();
        }
        self.0.insert(number.to_owned(), name.to_owned());
        name.to_owned()
    }
}

/// Reads one of callgrind's files, which counts instructions only.
///
/// # Errors
/// If a line is not as it should be.
pub fn parse(text: &str) -> Result<Profile, String> {
    let (mut objects, mut functions) = (Names::default(), Names::default());
    let mut profile = Profile::default();
    let (mut at, mut callee): (Function, (Option<String>, String)) = Default::default();
    let mut of_the_callee = false;
    for (number, line) in (1..).zip(text.lines()) {
        let wrong = || format!("line {number}: `{line}` is not what callgrind writes");
        match line.split_once('=') {
            Some(("ob", name)) => at.0 = objects.get(name),
            Some(("fn", name)) => at.1 = functions.get(name),
            Some(("cob", name)) => callee.0 = Some(objects.get(name)),
            Some(("cfn", name)) => callee.1 = functions.get(name),
            Some(("calls", counts)) => {
                let count: u64 = counts.split(' ').next().and_then(|n| n.parse().ok()).ok_or_else(wrong)?;
                let object = callee.0.take().unwrap_or_else(|| at.0.clone());
                let called = (object, callee.1.clone());
                *profile.calls.entry((at.0.clone(), called)).or_default() += count;
                of_the_callee = true;
            }
            None if line.starts_with(|c: char| c.is_ascii_digit() || "+-*".contains(c)) => {
                let cost: u64 = line.split(' ').nth(1).and_then(|n| n.parse().ok()).ok_or_else(wrong)?;
                if !std::mem::take(&mut of_the_callee) {
                    *profile.instructions.entry(at.clone()).or_default() += cost;
                }
            }
            _ => {}
        }
    }
    Ok(profile)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
# callgrind format
version: 1
events: Ir
summary: 35

ob=(1) /bin/router
fl=(1) x.rs
fn=(1) <rx as io::RxQueue>::rx
16 5
+1 2
cob=(2) /lib/pmd.so
cfi=(2) ???
cfn=(2) 0x3f70
calls=3 0
* 20
cfn=(3) note
calls=1 40
+3 6
* 1

fn=(3)
40 6

ob=(2)
fn=(2)
0 20
cob=(2)
cfn=(2)
calls=4 0
0 0

totals: 34
";

    #[test]
    fn costs_are_a_functions_own_and_calls_go_by_object() {
        let profile = parse(TEXT).unwrap();
        let function = |object: &str, name: &str| (object.to_owned(), name.to_owned());
        let rx = function("/bin/router", "<rx as io::RxQueue>::rx");
        let (note, pmd) = (function("/bin/router", "note"), function("/lib/pmd.so", "0x3f70"));
        assert_eq!(profile.instructions, BTreeMap::from([(rx, 8), (note.clone(), 6), (pmd.clone(), 20)]));
        let router = || "/bin/router".to_owned();
        let expected =
            [((router(), pmd.clone()), 3), ((router(), note), 1), (("/lib/pmd.so".to_owned(), pmd), 4)];
        assert_eq!(profile.calls, BTreeMap::from(expected));
    }

    #[test]
    fn what_is_no_profile_is_refused() {
        assert_eq!(parse("").unwrap(), Profile::default());
        assert!(parse("fn=(1) f\n5 x\n").unwrap_err().starts_with("line 2: "));
        assert!(parse("calls=x 1\n").unwrap_err().starts_with("line 1: "));
    }
}
