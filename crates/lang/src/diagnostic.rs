//! What is wrong, where, and what to do about it; printed with an excerpt and a caret, or as Click prints it.

use crate::source::{SourceMap, Span};
use std::fmt::Write;

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The configuration can be used.
    Warning,
    /// The configuration cannot be used.
    Error,
}

/// A place and what to say about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Label {
    /// The place.
    pub span: Span,
    /// What to say there; may be empty for the first label, whose text is the message itself.
    pub text: String,
}

/// One finding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// Warning or error.
    pub severity: Severity,
    /// A stable short name such as `unknown-class`, for tests and tools.
    pub code: Option<&'static str>,
    /// What is wrong, in one line.
    pub message: String,
    /// The text which Click prints, if it differs from `message`.
    pub click: Option<String>,
    /// The first is the place of the mistake, the others are places that explain it.
    pub labels: Vec<Label>,
    /// What to do about it.
    pub help: Option<String>,
    /// The activity it happened in, such as `While configuring 'q :: Queue'`, and where that was declared.
    pub context: Option<Label>,
    /// The compound elements it happened inside of, innermost first: where each is used and its `name :: Class`.
    pub uses: Vec<Label>,
}

impl Diagnostic {
    /// An error at `span`.
    pub fn error(span: Span, message: impl Into<String>) -> Diagnostic {
        Diagnostic {
            severity: Severity::Error,
            code: None,
            message: message.into(),
            click: None,
            labels: vec![Label { span, text: String::new() }],
            help: None,
            context: None,
            uses: Vec::new(),
        }
    }

    /// A warning at `span`.
    pub fn warning(span: Span, message: impl Into<String>) -> Diagnostic {
        Diagnostic { severity: Severity::Warning, ..Diagnostic::error(span, message) }
    }

    /// With a stable short name.
    #[must_use]
    pub fn code(mut self, code: &'static str) -> Diagnostic {
        self.code = Some(code);
        self
    }

    /// With the text that Click prints for it.
    #[must_use]
    pub fn click(mut self, text: impl Into<String>) -> Diagnostic {
        self.click = Some(text.into());
        self
    }

    /// With a further place.
    #[must_use]
    pub fn note(mut self, span: Span, text: impl Into<String>) -> Diagnostic {
        self.labels.push(Label { span, text: text.into() });
        self
    }

    /// With advice.
    #[must_use]
    pub fn help(mut self, text: impl Into<String>) -> Diagnostic {
        self.help = Some(text.into());
        self
    }

    /// Within an activity, such as `While configuring 'q :: Queue'`.
    #[must_use]
    pub fn context(mut self, span: Span, text: impl Into<String>) -> Diagnostic {
        self.context = Some(Label { span, text: text.into() });
        self
    }

    /// Whether it prevents use of the configuration.
    pub fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }

    /// The place of the mistake.
    pub fn span(&self) -> Span {
        self.labels.first().map_or(Span::default(), |l| l.span)
    }
}

/// Whether there is an error among them.
pub fn has_errors(diagnostics: &[Diagnostic]) -> bool {
    diagnostics.iter().any(Diagnostic::is_error)
}

/// Prints diagnostics for people: `file:line:column: error: message`, the source line, a caret, help.
pub fn render(diagnostics: &[Diagnostic], sources: &SourceMap, color: bool) -> String {
    let mut out = Renderer { text: String::new(), sources, color };
    for d in diagnostics {
        out.diagnostic(d);
    }
    out.text
}

/// Prints diagnostics as Click does: `FILE:LINE: message`, context lines that end in a colon, two spaces of
/// indentation below them.
pub fn to_click_format(diagnostics: &[Diagnostic], sources: &SourceMap) -> String {
    let mut out = String::new();
    let mut open: Option<&Label> = None;
    for d in diagnostics {
        let warning = if d.is_error() { "" } else { "warning: " };
        let message = d.click.as_ref().unwrap_or(&d.message);
        if let Some(context) = &d.context {
            if open != Some(context) {
                click_line(&mut out, sources, context.span, &format!("{}:", context.text));
                click_uses(&mut out, sources, d);
            }
            let _ = writeln!(out, "  {warning}{message}");
        } else {
            click_line(&mut out, sources, d.span(), &format!("{warning}{message}"));
            click_uses(&mut out, sources, d);
        }
        for note in d.labels.iter().skip(1) {
            click_line(&mut out, sources, note.span, &note.text);
        }
        open = d.context.as_ref();
    }
    out
}

fn click_line(out: &mut String, sources: &SourceMap, span: Span, text: &str) {
    let at = sources.position(span);
    for line in text.lines() {
        let _ = writeln!(out, "{}:{}: {}", at.file, at.line, line);
    }
}

fn click_uses(out: &mut String, sources: &SourceMap, d: &Diagnostic) {
    for user in &d.uses {
        click_line(out, sources, user.span, &format!("  (in compound element '{}')", user.text));
    }
}

const RED: &str = "\x1b[1;31m";
const YELLOW: &str = "\x1b[1;33m";
const CYAN: &str = "\x1b[1;36m";
const BOLD: &str = "\x1b[1m";
const RESET: &str = "\x1b[0m";

/// How much of a long line is shown, in characters.
const WINDOW: usize = 100;

struct Renderer<'a> {
    text: String,
    sources: &'a SourceMap,
    color: bool,
}

impl Renderer<'_> {
    fn diagnostic(&mut self, d: &Diagnostic) {
        let (word, tint) = if d.is_error() { ("error", RED) } else { ("warning", YELLOW) };
        let message = match &d.context {
            Some(context) => format!("{}: {}", context.text, d.message),
            None => d.message.clone(),
        };
        self.place(d.span(), word, tint, &message);
        if let Some(first) = d.labels.first() {
            self.excerpt(first.span, tint, &first.text);
        }
        for note in d.labels.iter().skip(1) {
            self.place(note.span, "note", CYAN, &note.text);
            self.excerpt(note.span, CYAN, "");
        }
        for user in &d.uses {
            self.place(user.span, "note", CYAN, &format!("in compound element '{}', used here", user.text));
            self.excerpt(user.span, CYAN, "");
        }
        if let Some(help) = &d.help {
            let (on, off) = self.tints(CYAN);
            let _ = writeln!(self.text, "  {on}help:{off} {help}");
        }
    }

    fn tints(&self, tint: &'static str) -> (&'static str, &'static str) {
        if self.color { (tint, RESET) } else { ("", "") }
    }

    fn place(&mut self, span: Span, word: &str, tint: &'static str, message: &str) {
        let at = self.sources.position(span);
        let (bold, off) = self.tints(BOLD);
        let (on, _) = self.tints(tint);
        let message = visible(message);
        let file = visible(at.file);
        let _ = writeln!(
            self.text,
            "{bold}{file}:{}:{}:{off} {on}{word}:{off} {bold}{message}{off}",
            at.line, at.column
        );
    }

    /// The source line with a caret under every character of the span, as far as it lies on its first line.
    fn excerpt(&mut self, span: Span, tint: &'static str, text: &str) {
        let Some(source) = self.sources.get(span.source) else { return };
        let (line, start) = source.line_text(span.start);
        let number = self.sources.position(span).line.to_string();
        let from = chars_before(line, span.start.saturating_sub(start) as usize);
        let to = chars_before(line, span.end.saturating_sub(start) as usize).max(from + 1);
        let length = line.chars().count();
        let skip = if length > WINDOW { from.saturating_sub(WINDOW / 2) } else { 0 };
        let shown: String = visible(&line.chars().skip(skip).take(WINDOW).collect::<String>());
        let (head, tail) =
            (if skip > 0 { "..." } else { "" }, if length > skip + WINDOW { "..." } else { "" });
        let pad: String = shown.chars().take(from - skip).map(|c| if c == '\t' { c } else { ' ' }).collect();
        let lead = " ".repeat(head.len() + (from - skip).saturating_sub(shown.chars().count()));
        let carets = "^".repeat(to.min(skip + WINDOW).saturating_sub(from).max(1));
        let margin = " ".repeat(number.len());
        let (on, off) = self.tints(tint);
        let _ = writeln!(self.text, " {number} | {head}{shown}{tail}");
        let gap = if text.is_empty() { "" } else { " " };
        let _ = writeln!(self.text, " {margin} | {lead}{pad}{on}{carets}{gap}{}{off}", visible(text));
    }
}

fn chars_before(line: &str, offset: usize) -> usize {
    line.char_indices().take_while(|(i, _)| *i < offset).count()
}

/// Control characters could move the terminal's cursor; they are shown as U+FFFD.
fn visible(text: &str) -> String {
    let replace = |c: char| if c.is_control() && c != '\t' { char::REPLACEMENT_CHARACTER } else { c };
    text.chars().map(replace).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sources() -> SourceMap {
        let mut map = SourceMap::new();
        map.add("x.click", "a :: Idle;\n\tb -> Quue(5);\n");
        map
    }

    #[test]
    fn rendered_with_excerpt_caret_and_help() {
        let d = Diagnostic::error(Span::new(0, 17..21), "no element class `Quue`")
            .note(Span::new(0, 0..1), "see here")
            .help("did you mean `Queue`?");
        assert_eq!(
            render(&[d], &sources(), false),
            "x.click:2:7: error: no element class `Quue`\n 2 | \tb -> Quue(5);\n   | \t     ^^^^\n\
             x.click:1:1: note: see here\n 1 | a :: Idle;\n   | ^\n  help: did you mean `Queue`?\n"
        );
    }

    #[test]
    fn click_format_groups_by_context() {
        let at = Span::new(0, 0..1);
        let all: Vec<_> = ["CAPACITY: invalid number", "too many arguments"]
            .map(|m| Diagnostic::error(at, m).context(at, "While configuring 'q :: Queue'"))
            .into();
        assert_eq!(
            to_click_format(&all, &sources()),
            "x.click:1: While configuring 'q :: Queue':\n  CAPACITY: invalid number\n  too many arguments\n"
        );
    }

    #[test]
    fn a_long_line_is_clipped_around_the_caret() {
        let mut map = SourceMap::new();
        map.add("f", format!("{}X{}", "a".repeat(300), "b".repeat(300)));
        let text = render(&[Diagnostic::error(Span::new(0, 300..301), "m")], &map, false);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "f:1:301: error: m");
        assert_eq!(lines[1].chars().nth(lines[2].find('^').unwrap()), Some('X'));
    }

    #[test]
    fn control_characters_do_not_reach_the_terminal() {
        let mut map = SourceMap::new();
        map.add("f", "\x1b[2J");
        assert!(!render(&[Diagnostic::error(Span::new(0, 0..1), "x\x07")], &map, false).contains('\x1b'));
    }
}
