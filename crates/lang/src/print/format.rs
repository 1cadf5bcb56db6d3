//! The canonical form of a configuration, comments kept. Formatting twice gives the same as once, and what the
//! text means does not change. Line directives are not kept.

use super::{has_comment, join_arguments};
use crate::ast::{Ast, Block, Chain, Class, Compound, Element, Formal, Item, Link, Node, Ports, Statement};
use crate::lex::Comment;
use crate::text::Text;

/// Chains longer than this are broken before their arrows.
const WIDTH: usize = 100;

/// Braces and parentheses with one statement stay on the line up to this length.
const INLINE: usize = 60;

/// The canonical text of a tree that was parsed without errors.
pub fn format(ast: &Ast) -> String {
    let mut printer = Printer { out: String::new(), mode: Mode::Lines };
    printer.block(&ast.block, 0);
    printer.out
}

/// What to do with the statements in braces and parentheses. Only `Lines` goes inside without a bound, so the
/// work does not multiply with each level.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// Each on a line of its own, unless short.
    Lines,
    /// All on one line; `Failed` if that is not possible.
    OneLine,
    /// As `Lines`, but what takes several lines is only hinted at.
    Measure,
    /// It was not possible.
    Failed,
}

struct Printer {
    out: String,
    mode: Mode,
}

impl Printer {
    fn push(&mut self, text: &str) {
        if self.mode != Mode::Failed {
            self.out.push_str(text);
        }
        if self.mode == Mode::OneLine && (self.out.len() > 4 * INLINE || text.contains(['\n', '\r'])) {
            self.mode = Mode::Failed;
        }
    }

    fn new_line(&mut self, depth: usize) {
        self.out.push('\n');
        self.out.extend(std::iter::repeat_n("    ", depth));
    }

    fn block(&mut self, block: &Block, depth: usize) {
        for (i, item) in block.items.iter().enumerate() {
            self.item(item, depth, i == 0);
        }
        for (i, comment) in block.tail.iter().enumerate() {
            let blank = comment.blank_before && !(i == 0 && block.items.is_empty());
            self.comment_line(comment, depth, blank);
        }
    }

    /// A line by itself; `blank` puts an empty line before it.
    fn comment_line(&mut self, comment: &Comment, depth: usize, blank: bool) {
        self.start_line(depth, blank);
        self.push(comment.text.trim_ascii_end());
        self.out.push('\n');
    }

    fn start_line(&mut self, depth: usize, blank: bool) {
        if blank {
            self.out.push('\n');
        }
        self.out.extend(std::iter::repeat_n("    ", depth));
    }

    fn item(&mut self, item: &Item, depth: usize, first: bool) {
        for (i, comment) in item.before.iter().enumerate() {
            let blank = if i == 0 { item.blank_before && !first } else { comment.blank_before };
            self.comment_line(comment, depth, blank);
        }
        let blank =
            if item.before.is_empty() { item.blank_before && !first } else { item.blank_after_comments };
        self.start_line(depth, blank);
        let behind = self.statement(&item.statement, depth);
        self.push(";");
        self.comments(behind.iter().chain(&item.after), depth);
        self.out.push('\n');
    }

    /// Comments behind something on its line; those behind a `//` comment get lines of their own.
    fn comments<'a>(&mut self, comments: impl Iterator<Item = &'a Comment>, depth: usize) {
        let mut own_line = false;
        for comment in comments {
            if own_line {
                self.new_line(depth);
            } else {
                self.push(" ");
            }
            self.push(comment.text.trim_ascii_end());
            if self.mode == Mode::OneLine {
                self.mode = Mode::Failed;
            }
            own_line |= comment.text.starts_with("//");
        }
    }

    /// Prints a statement without its `;`; returns the comments that belong behind that.
    fn statement<'a>(&mut self, statement: &'a Statement, depth: usize) -> &'a [Comment] {
        match statement {
            Statement::Chain(chain) => return self.chain(chain, depth),
            Statement::Class(definition) => {
                self.push("elementclass ");
                self.push(&definition.name.name);
                self.push(" ");
                self.class(&definition.class, depth);
            }
            Statement::Define(arguments) => {
                self.push("define");
                self.config(&arguments.text);
            }
            Statement::Require(arguments) => {
                self.push("require");
                self.config(&arguments.text);
            }
        }
        &[]
    }

    fn chain<'a>(&mut self, chain: &'a Chain, depth: usize) -> &'a [Comment] {
        let broken = self.mode == Mode::Lines && is_broken(chain, depth);
        self.nodes(&chain.first, depth);
        let mut before = comments_of(&chain.first);
        for (i, link) in chain.links.iter().enumerate() {
            self.comments(before.iter(), depth + 1);
            let at_start = i == 0 && is_nothing(&chain.first);
            if broken && !at_start {
                self.new_line(depth + 1);
            } else if !at_start {
                self.push(" ");
            }
            self.push(if link.parallel { "=>" } else { "->" });
            if !is_nothing(&link.nodes) {
                self.push(" ");
            }
            self.nodes(&link.nodes, depth);
            before = comments_of(&link.nodes);
        }
        if self.mode == Mode::OneLine && !before.is_empty() {
            self.mode = Mode::Failed;
        }
        before
    }

    fn nodes(&mut self, nodes: &[Node], depth: usize) {
        for (i, node) in nodes.iter().enumerate() {
            self.push(if i > 0 { ", " } else { "" });
            self.node(node, depth);
        }
    }

    fn node(&mut self, node: &Node, depth: usize) {
        if let Some(ports) = &node.inputs {
            self.ports(ports);
        }
        if node.element != Element::Outside {
            self.push(if node.inputs.is_some() { " " } else { "" });
            self.element(&node.element, depth);
        }
        if let Some(ports) = &node.outputs {
            self.push(" ");
            self.ports(ports);
        }
    }

    fn element(&mut self, element: &Element, depth: usize) {
        match element {
            Element::Outside => {}
            Element::Name(name) => self.push(&name.name),
            Element::Anonymous { class, config } => {
                self.class(class, depth);
                self.optional_config(config.as_ref());
            }
            Element::Declaration { names, class, config } => {
                for (i, name) in names.iter().enumerate() {
                    self.push(if i > 0 { ", " } else { "" });
                    self.push(&name.name);
                }
                self.push(" :: ");
                self.class(class, depth);
                self.optional_config(config.as_ref());
            }
            Element::Group(block) => match one_line(&[], block) {
                Some(text) => self.enclosed("(", &text, ")"),
                None if self.mode == Mode::Lines => {
                    self.push("(\n");
                    self.block(block, depth + 1);
                    self.start_line(depth, false);
                    self.push(")");
                }
                None => self.several_lines("()"),
            },
        }
    }

    fn enclosed(&mut self, open: &str, text: &str, close: &str) {
        self.push(open);
        self.push(if text.is_empty() { "" } else { " " });
        self.push(text);
        self.push(" ");
        self.push(close);
    }

    fn several_lines(&mut self, hint: &str) {
        if self.mode == Mode::Measure {
            self.push(hint);
        } else {
            self.mode = Mode::Failed;
        }
    }

    fn class(&mut self, class: &Class, depth: usize) {
        match class {
            Class::Name(name) => self.push(&name.name),
            Class::Compound(compound) => self.compound(compound, depth),
        }
    }

    fn compound(&mut self, compound: &Compound, depth: usize) {
        if let ([only], None) = (compound.alternatives.as_slice(), compound.extends)
            && let Some(text) = one_line(&only.formals, &only.block)
        {
            return self.enclosed("{", &text, "}");
        }
        if self.mode != Mode::Lines {
            return self.several_lines("{}");
        }
        self.push("{");
        for (i, alternative) in compound.alternatives.iter().enumerate() {
            if i > 0 {
                self.start_line(depth, false);
                self.push("||");
            }
            if !alternative.formals.is_empty() {
                self.push(" ");
                self.formals(&alternative.formals);
            }
            self.push("\n");
            self.block(&alternative.block, depth + 1);
        }
        if compound.extends.is_some() {
            self.push(if compound.alternatives.is_empty() { "\n" } else { "" });
            self.start_line(depth, false);
            self.push(if compound.alternatives.is_empty() { "...\n" } else { "|| ...\n" });
        }
        self.start_line(depth, false);
        self.push("}");
    }

    fn formals(&mut self, formals: &[Formal]) {
        for (i, formal) in formals.iter().enumerate() {
            self.push(if i > 0 { ", " } else { "" });
            if let Some(keyword) = &formal.keyword {
                self.push(&keyword.name);
                self.push(" ");
            }
            self.push("$");
            self.push(&formal.name.name);
        }
        self.push(" |");
    }

    fn ports(&mut self, ports: &Ports) {
        let one =
            |&(low, high): &(u32, u32)| if low == high { low.to_string() } else { format!("{low}-{high}") };
        let mut parts: Vec<String> = ports.ranges.iter().map(one).collect();
        match ports.open {
            Some(0) if parts.is_empty() => {}
            Some(open) => parts.push(format!("{open}-")),
            None => {}
        }
        self.push(&format!("[{}]", parts.join(", ")));
    }

    fn optional_config(&mut self, config: Option<&Text>) {
        if let Some(config) = config {
            self.config(config);
        }
    }

    /// A configuration string of one line is tidied; one of several lines, or with comments, stays as it is.
    fn config(&mut self, config: &Text) {
        let as_it_is = config.text.contains(['\n', '\r']) || has_comment(&config.text);
        self.push("(");
        self.push(&if as_it_is { config.text.clone() } else { join_arguments(config) });
        self.push(")");
    }
}

fn comments_of(nodes: &[Node]) -> &[Comment] {
    nodes.last().map_or(&[], |n| &n.comments)
}

/// The outside of a group, written as nothing.
fn is_nothing(nodes: &[Node]) -> bool {
    matches!(nodes, [Node { inputs: None, element: Element::Outside, .. }])
}

/// Whether the arrows of a chain stand on lines of their own: it has comments inside, or is too long. What
/// takes several lines anyway does not count.
fn is_broken(chain: &Chain, depth: usize) -> bool {
    let inner = chain.links.split_last().map_or(&[] as &[Link], |(_, before)| before);
    let commented = !chain.links.is_empty() && !comments_of(&chain.first).is_empty()
        || inner.iter().any(|l| !comments_of(&l.nodes).is_empty());
    if commented {
        return true;
    }
    let mut trial = Printer { out: String::new(), mode: Mode::Measure };
    trial.chain(chain, depth);
    let widest = trial.out.lines().map(|l| l.chars().count()).max().unwrap_or(0);
    chain.links.len() > 1 && 4 * depth + widest > WIDTH
}

/// Formals and a block of at most one short statement without comments, as one line.
fn one_line(formals: &[Formal], block: &Block) -> Option<String> {
    if !block.tail.is_empty() || block.items.len() > 1 {
        return None;
    }
    let mut printer = Printer { out: String::new(), mode: Mode::OneLine };
    if !formals.is_empty() {
        printer.formals(formals);
        printer.push(if block.items.is_empty() { "" } else { " " });
    }
    if let Some(item) = block.items.first() {
        if !item.before.is_empty() || !item.after.is_empty() {
            return None;
        }
        printer.statement(&item.statement, 0);
    }
    let fits = printer.mode == Mode::OneLine && printer.out.chars().count() <= INLINE;
    fits.then_some(printer.out)
}
