//! Reading an element's arguments.

use super::names::Names;
use super::split::{keyword, split};
use super::value::{ArgError, FromArg};
use crate::diagnostic::{Diagnostic, Label, has_errors};
use crate::flat::Flat;
use crate::source::Span;
use crate::suggest::nearest;
use crate::text::Text;
use std::sync::Arc;

/// The arguments of one element, taken one after the other. A value that cannot be read is recorded as an error
/// and replaced by a placeholder; [`Args::finish`] returns all errors, so nothing may be used before that.
///
/// An argument counts as a keyword argument if it begins with an upper-case word and a space. An element whose
/// positional arguments may begin so says with [`Args::keywords`] which words are keywords.
#[derive(Debug)]
pub struct Args {
    arguments: Vec<Option<Text>>,
    /// Before it no argument is positional, or none is left.
    next: usize,
    span: Span,
    known: Option<Vec<&'static str>>,
    /// Names asked for so far, and where their values stand.
    asked: Vec<(String, Option<Span>)>,
    errors: Vec<Diagnostic>,
    context: Option<Label>,
    uses: Vec<Label>,
}

impl Args {
    /// The arguments in a configuration string.
    pub fn new(config: &Text) -> Args {
        Args {
            arguments: split(config).into_iter().map(Some).collect(),
            next: 0,
            span: config.span,
            known: None,
            asked: Vec::new(),
            errors: Vec::new(),
            context: None,
            uses: Vec::new(),
        }
    }

    /// The arguments of an element, with the names for addresses in each scope (see [`super::names_by_scope`]); its
    /// errors say `While configuring 'name :: Class'`.
    pub fn of(flat: &Flat, element: usize, names: &[Option<Arc<Names>>]) -> Args {
        let Some(e) = flat.elements.get(element) else { return Args::new(&Text::default()) };
        let text = format!("While configuring '{} :: {}'", e.name, e.class);
        let args = match names.get(e.scope) {
            Some(Some(names)) => Args::new(&e.config.clone().with_names(names.clone())),
            _ => Args::new(&e.config),
        };
        Args { context: Some(Label { span: e.span, text }), uses: flat.uses(element), ..args }
    }

    /// Only these words are keywords; other arguments that begin with upper-case words are positional.
    pub fn keywords(&mut self, known: &[&'static str]) {
        self.known = Some(known.to_vec());
        self.next = 0;
    }

    /// How many arguments have not been taken.
    pub fn remaining(&self) -> usize {
        self.arguments.iter().flatten().count()
    }

    /// The next positional argument, or `NAME value`; an error if neither is there.
    pub fn required<T: FromArg>(&mut self, name: &str) -> T {
        let argument = self.take_named(name).or_else(|| self.take_positional(name));
        self.read_required(name, argument)
    }

    /// The next positional argument, or `NAME value`, or else `default`.
    pub fn optional<T: FromArg>(&mut self, name: &str, default: T) -> T {
        self.optional_if_given(name).unwrap_or(default)
    }

    /// The next positional argument, or `NAME value`, if one of them is there.
    pub fn optional_if_given<T: FromArg>(&mut self, name: &str) -> Option<T> {
        let argument = self.take_named(name).or_else(|| self.take_positional(name))?;
        Some(self.read(name, &argument))
    }

    /// `NAME value`; an error if it is not there.
    pub fn required_keyword<T: FromArg>(&mut self, name: &str) -> T {
        let argument = self.take_named(name);
        self.read_required(name, argument)
    }

    /// `NAME value`, or else `default`.
    pub fn keyword<T: FromArg>(&mut self, name: &str, default: T) -> T {
        self.keyword_if_given(name).unwrap_or(default)
    }

    /// `NAME value`, if it is there.
    pub fn keyword_if_given<T: FromArg>(&mut self, name: &str) -> Option<T> {
        let argument = self.take_named(name)?;
        Some(self.read(name, &argument))
    }

    /// All positional arguments that are left, each read as a `T`; `name` stands before errors.
    pub fn rest<T: FromArg>(&mut self, name: &str) -> Vec<T> {
        let mut all = Vec::new();
        while let Some(argument) = self.take_positional(name) {
            all.push(self.read(name, &argument));
        }
        all
    }

    /// All arguments that are left, as they stand, those that look like keyword arguments too.
    pub fn all(&mut self) -> Vec<Text> {
        self.arguments.iter_mut().filter_map(Option::take).collect()
    }

    /// Records `NAME: message` at the argument that `name` was read from, or at the configuration string.
    pub fn error(&mut self, name: &str, message: impl AsRef<str>) {
        let span = self.span_of(name);
        self.push(Diagnostic::error(span, format!("{name}: {}", message.as_ref())).code("argument"));
    }

    /// Records an error at a place of its own choosing.
    pub fn error_at(&mut self, span: Span, message: impl Into<String>) {
        self.push(Diagnostic::error(span, message).code("argument"));
    }

    /// Records a warning, as [`Args::error`] does an error.
    pub fn warn(&mut self, name: &str, message: impl AsRef<str>) {
        let span = self.span_of(name);
        self.push(Diagnostic::warning(span, format!("{name}: {}", message.as_ref())).code("argument"));
    }

    /// Where the argument of this name stands, or the configuration string if it was not given.
    pub fn span_of(&self, name: &str) -> Span {
        self.asked.iter().rev().find(|(n, _)| n == name).and_then(|(_, s)| *s).unwrap_or(self.span)
    }

    /// Ends reading; what has not been taken is an error. May be called again after [`Args::error`]. Warnings
    /// alone are no error; [`Args::take_warnings`] has them.
    ///
    /// # Errors
    /// All errors and warnings of this element.
    pub fn finish(&mut self) -> Result<(), Vec<Diagnostic>> {
        let left: Vec<Text> = self.all();
        let mut too_many = false;
        for argument in left {
            match self.keyword_of(&argument.text) {
                Some((word, _)) => {
                    let word = word.to_string();
                    self.unknown_keyword(&word, argument.span_of(0..word.len()));
                }
                None if too_many => {}
                None => {
                    too_many = true;
                    self.push(Diagnostic::error(argument.span, "too many arguments").code("argument"));
                }
            }
        }
        if has_errors(&self.errors) { Err(std::mem::take(&mut self.errors)) } else { Ok(()) }
    }

    /// The warnings recorded so far.
    pub fn take_warnings(&mut self) -> Vec<Diagnostic> {
        std::mem::take(&mut self.errors)
    }

    fn unknown_keyword(&mut self, word: &str, span: Span) {
        let mut d = Diagnostic::error(span, format!("{word}: unknown argument")).code("argument");
        let mut names: Vec<&str> = Vec::new();
        for (name, _) in &self.asked {
            if !names.contains(&name.as_str()) {
                names.push(name);
            }
        }
        d.help = match nearest(word, names.iter().copied()) {
            Some(name) => Some(format!("did you mean `{name}`?")),
            None if names.is_empty() => None,
            None => Some(format!("known arguments: {}", names.join(", "))),
        };
        self.push(d);
    }

    fn push(&mut self, mut d: Diagnostic) {
        d.context.clone_from(&self.context);
        d.uses.clone_from(&self.uses);
        self.errors.push(d);
    }

    fn keyword_of<'a>(&self, text: &'a str) -> Option<(&'a str, &'a str)> {
        let (word, value) = keyword(text)?;
        let known = self.known.as_ref().is_none_or(|k| k.contains(&word) || self.is_asked(word));
        known.then_some((word, value))
    }

    fn is_asked(&self, word: &str) -> bool {
        self.asked.iter().any(|(n, _)| n == word)
    }

    /// Takes every `NAME value`; the last one counts.
    fn take_named(&mut self, name: &str) -> Option<Text> {
        let mut found = None;
        for slot in &mut self.arguments {
            let matches = slot.as_ref().and_then(|a| keyword(&a.text)).is_some_and(|(word, _)| word == name);
            if matches {
                found = slot.take();
            }
        }
        let value = found.map(|argument| {
            let start = keyword(&argument.text).map_or(0, |(_, value)| argument.text.len() - value.len());
            argument.slice(start..argument.text.len())
        });
        self.asked.push((name.to_string(), value.as_ref().map(|v| v.span)));
        value
    }

    fn take_positional(&mut self, name: &str) -> Option<Text> {
        let is_positional = |a: &Text| self.keyword_of(&a.text).is_none();
        let mut left = self.arguments.iter().enumerate().skip(self.next);
        let found = left.find(|(_, slot)| slot.as_ref().is_some_and(is_positional)).map(|(at, _)| at);
        self.next = found.map_or(self.arguments.len(), |at| at + 1);
        let argument = self.arguments.get_mut(found?)?.take()?;
        self.asked.push((name.to_string(), Some(argument.span)));
        Some(argument)
    }

    fn read_required<T: FromArg>(&mut self, name: &str, argument: Option<Text>) -> T {
        match argument {
            Some(argument) => self.read(name, &argument),
            None => {
                self.error(name, "required argument missing");
                T::placeholder()
            }
        }
    }

    fn read<T: FromArg>(&mut self, name: &str, argument: &Text) -> T {
        match T::from_arg(argument) {
            Ok(value) => value,
            Err(ArgError { message, span, help }) => {
                let span = span.unwrap_or(argument.span);
                let mut d = Diagnostic::error(span, format!("{name}: {message}")).code("argument");
                d.help = help;
                self.push(d);
                T::placeholder()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Ipv4Prefix, Words};
    use std::net::Ipv4Addr;

    fn args(text: &str) -> Args {
        Args::new(&Text::verbatim(text, Span::new(0, 100..100 + text.len())))
    }

    /// `start-end message` of every error, relative to the configuration string.
    fn errors(args: &mut Args) -> Vec<String> {
        let all = args.finish().err().unwrap_or_default();
        all.iter().map(|d| format!("{}-{} {}", d.span().start - 100, d.span().end - 100, d.message)).collect()
    }

    #[test]
    fn what_was_passed_over_is_found_when_it_becomes_positional() {
        let mut a = args("A 1, 2, B 3, 4");
        assert_eq!(a.optional("X", 0u32), 2);
        // Only now `A 1` and `B 3` are no keyword arguments.
        a.keywords(&["C"]);
        let texts: Vec<String> = a.rest("Y");
        assert_eq!(texts, ["A 1", "B 3", "4"]);
        assert_eq!(a.finish(), Ok(()));
    }

    #[test]
    fn queue() {
        for (text, want) in [("", 1000), ("100", 100), ("CAPACITY 100", 100), ("CAPACITY 1, CAPACITY 2", 2)] {
            let mut a = args(text);
            assert_eq!(a.optional("CAPACITY", 1000u32), want);
            assert_eq!(a.finish(), Ok(()));
        }
        let mut a = args("ten, 5, CAPACTIY 3");
        a.optional("CAPACITY", 1000u32);
        let all = a.finish().unwrap_err();
        let texts: Vec<_> = all.iter().map(|d| (d.message.as_str(), d.help.as_deref())).collect();
        assert_eq!(
            texts,
            [
                ("CAPACITY: invalid number", None),
                ("too many arguments", None),
                ("CAPACTIY: unknown argument", Some("did you mean `CAPACITY`?")),
            ]
        );
    }

    #[test]
    fn infinite_source() {
        let mut a = args(r"DATA \<00 01>, LIMIT 5, BURST 2, STOP true");
        let limit = a.keyword("LIMIT", -1i64);
        let burst = a.keyword("BURST", 1u32);
        let stop = a.keyword("STOP", false);
        let data = a.optional("DATA", b"default".to_vec());
        assert_eq!(a.finish(), Ok(()));
        assert_eq!((data, limit, burst, stop), (vec![0, 1], 5, 2, true));
    }

    #[test]
    fn ether_encap() {
        let want = (0x800u16, [1u8; 6], [2u8; 6]);
        for text in [
            "0x0800, 1:1:1:1:1:1, 2-2-2-2-2-2",
            "DST 2:2:2:2:2:2, 0x0800, 1:1:1:1:1:1",
            "SRC 1:1:1:1:1:1, 0x800, DST 2:2:2:2:2:2",
        ] {
            let mut a = args(text);
            let got = (a.required("ETHERTYPE"), a.required("SRC"), a.required("DST"));
            assert_eq!((a.finish(), got), (Ok(()), want), "{text}");
        }
        let mut a = args("0x10800, 1:1:1:1:1");
        let _: (u16, [u8; 6], [u8; 6]) = (a.required("ETHERTYPE"), a.required("SRC"), a.required("DST"));
        assert_eq!(
            errors(&mut a),
            [
                "0-7 ETHERTYPE: out of range, bound 65535",
                "9-18 SRC: parse error",
                "0-18 DST: required argument missing",
            ]
        );
    }

    #[derive(Debug, PartialEq)]
    struct Route(Ipv4Prefix, Option<Ipv4Addr>, u32);

    impl FromArg for Route {
        fn from_arg(arg: &Text) -> Result<Route, ArgError> {
            let mut words = Words::new(arg);
            let prefix = words.take("prefix")?;
            let gateway = if words.len() > 1 { Some(words.take("gateway")?) } else { None };
            let port = words.take("port")?;
            words.end()?;
            Ok(Route(prefix, gateway, port))
        }
        fn placeholder() -> Route {
            Route(Ipv4Prefix::placeholder(), None, 0)
        }
    }

    #[test]
    fn routes() {
        let mut a = args("10.0.0.0/8 1, 0.0.0.0/0 192.168.0.1 2");
        let routes: Vec<Route> = a.rest("ROUTE");
        assert_eq!(a.finish(), Ok(()));
        assert_eq!((routes[0].1, routes[0].2), (None, 1));
        assert_eq!((routes[1].1, routes[1].2), (Some(Ipv4Addr::new(192, 168, 0, 1)), 2));
        let mut a = args("10.0.0.0/8 1,\n 10.0.0.0/99 2, 1.2.3.4, 1.2.3.4 1 2 3");
        a.rest::<Route>("ROUTE");
        assert_eq!(
            errors(&mut a),
            [
                "15-26 ROUTE: prefix: prefix length out of range, bound 32",
                "37-37 ROUTE: port missing",
                "47-48 ROUTE: gateway: parse error",
            ]
        );
    }

    #[test]
    fn patterns_and_words_in_capitals() {
        let mut a = args("allow tcp port 80, DENY all, -");
        let all: Vec<String> = a.all().into_iter().map(|t| t.text).collect();
        assert_eq!((a.finish(), all.join("|")), (Ok(()), "allow tcp port 80|DENY all|-".to_string()));
        let mut a = args("HELLO world, MAXLENGTH 5");
        a.keywords(&["MAXLENGTH"]);
        let (length, label) = (a.keyword("MAXLENGTH", 0u32), a.optional("LABEL", String::new()));
        assert_eq!((a.finish(), length, label), (Ok(()), 5, "HELLO world".to_string()));
    }

    #[test]
    fn an_element_may_add_errors_of_its_own() {
        let mut a = args("file.pcap, STOP true");
        let (stop, file): (bool, std::path::PathBuf) = (a.keyword("STOP", false), a.required("FILENAME"));
        assert_eq!((a.finish(), stop), (Ok(()), true));
        a.error("FILENAME", format!("{}: no such file", file.display()));
        assert_eq!(errors(&mut a), ["0-9 FILENAME: file.pcap: no such file"]);
        a.warn("STOP", "has no effect");
        assert_eq!(a.finish(), Ok(()));
        assert_eq!(a.take_warnings()[0].message, "STOP: has no effect");
    }
}
