//! Arguments of a compound against the formal parameters of its alternatives.

use crate::args::keyword;
use crate::ast::Formal;
use crate::text::Text;

/// The value of each formal, if the arguments fit: all positional and keyword formals are given, and nothing
/// is left over unless there is `__REST__`, which takes what is left, joined by commas.
pub(super) fn bind(formals: &[Formal], arguments: &[Text]) -> Option<Vec<(String, String)>> {
    let mut values: Vec<Option<String>> = vec![None; formals.len()];
    let positional = formals.iter().take_while(|f| f.keyword.is_none()).count();
    let mut next = 0;
    let mut rest: Vec<&str> = Vec::new();
    for argument in arguments {
        let text = argument.text.as_str();
        let named = keyword(text).and_then(|(word, value)| {
            let at = formals.iter().position(|f| f.keyword.as_ref().is_some_and(|k| k.name == word));
            at.map(|i| (i, value))
        });
        if let Some((i, value)) = named {
            values[i] = Some(value.to_string());
        } else if next < positional {
            values[next] = Some(text.to_string());
            next += 1;
        } else {
            rest.push(text);
        }
    }
    match formals.last() {
        Some(f) if is_rest(f) => values[formals.len() - 1] = Some(rest.join(", ")),
        _ if !rest.is_empty() => return None,
        _ => {}
    }
    formals.iter().zip(values).map(|(f, v)| Some((f.name.name.clone(), v?))).collect()
}

fn is_rest(formal: &Formal) -> bool {
    formal.keyword.as_ref().is_some_and(|k| k.name == "__REST__")
}

/// `Foo[2 arguments, COUNT, 1 input, 0 outputs]`: what an alternative accepts.
pub(super) fn signature(name: &str, formals: &[Formal], inputs: u32, outputs: u32) -> String {
    let positional = formals.iter().filter(|f| f.keyword.is_none()).count();
    let mut parts = vec![plural(positional, "argument")];
    parts.extend(formals.iter().filter_map(|f| f.keyword.as_ref()).map(|k| k.name.clone()));
    describe(name, parts, inputs, outputs)
}

/// `Foo[2 arguments, 1 input, 0 outputs]`: what is given.
pub(super) fn given(name: &str, arguments: usize, inputs: u32, outputs: u32) -> String {
    describe(name, vec![plural(arguments, "argument")], inputs, outputs)
}

fn describe(name: &str, mut parts: Vec<String>, inputs: u32, outputs: u32) -> String {
    parts.push(plural(inputs as usize, "input"));
    parts.push(plural(outputs as usize, "output"));
    let name = if name.is_empty() { "<anonymous>" } else { name };
    format!("{name}[{}]", parts.join(", "))
}

fn plural(count: usize, word: &str) -> String {
    format!("{count} {word}{}", if count == 1 { "" } else { "s" })
}
