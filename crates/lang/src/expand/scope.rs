//! Looking up names, in text order: a name is visible only behind its declaration.

use super::body::{Body, ClassRef, CompoundClass, INPUT, Member, NodeId, OUTPUT, PortUse, Program};
use super::{ClassTable, Limits};
use crate::ast::{
    Alternative, Block, Class, ClassDefinition, Compound, Definition, Ident, Requirement, Statement,
};
use crate::diagnostic::Diagnostic;
use crate::parse::MAX_ERRORS;
use crate::source::Span;
use crate::suggest::nearest;
use crate::text::Text;
use std::collections::{HashMap, HashSet};

/// Suggestions are looked for in this many errors; each costs a walk over all names.
const MAX_SUGGESTIONS: usize = 50;

/// Looks up the names of a whole configuration.
pub(super) struct Resolver<'a> {
    table: &'a dyn ClassTable,
    pub(super) limits: Limits,
    pub(super) program: Program,
    pub(super) diagnostics: Vec<Diagnostic>,
    /// Connections made so far in all blocks.
    pub(super) wires: usize,
    suggestions: usize,
    /// Identifiers in statements that the parser could not understand.
    lost: HashSet<String>,
    /// Compound classes visible now, outermost scope first.
    classes: Vec<HashMap<String, ClassRef>>,
    /// Whether the present block is a file's, where a library may be required.
    file_scope: bool,
}

/// The block being looked up.
pub(super) struct Scope {
    /// Its index in [`Program::bodies`].
    pub id: usize,
    pub body: Body,
    /// Declared elements: index in [`Body::members`].
    pub names: HashMap<String, usize>,
    /// The number of the last anonymous element of each class.
    last_number: HashMap<String, usize>,
    /// Identifiers that stood for a class, and where first.
    class_uses: HashMap<String, Span>,
    /// Variables defined here, and where.
    variables: HashMap<String, Span>,
    /// What `input` and `output` mean, innermost group last; empty at the outer level.
    pub outside: Vec<(NodeId, NodeId)>,
    pub groups: Vec<Group>,
}

/// An element group.
pub(super) struct Group {
    pub node: NodeId,
    pub inputs: u32,
    pub outputs: u32,
    pub span: Span,
}

impl Scope {
    pub fn new_node(&mut self) -> NodeId {
        self.body.nodes += 1;
        self.body.nodes - 1
    }
}

impl<'a> Resolver<'a> {
    pub fn new(table: &'a dyn ClassTable, limits: Limits) -> Resolver<'a> {
        Resolver {
            table,
            limits,
            program: Program::default(),
            diagnostics: Vec::new(),
            wires: 0,
            suggestions: 0,
            lost: HashSet::new(),
            classes: Vec::new(),
            file_scope: true,
        }
    }

    pub fn error(&mut self, d: Diagnostic) {
        if self.diagnostics.len() < MAX_ERRORS {
            self.diagnostics.push(d);
        }
    }

    /// Looks up a file; the result is the index of its body.
    pub fn file(&mut self, block: &Block) -> usize {
        self.body(None, block)
    }

    fn body(&mut self, alternative: Option<&Alternative>, block: &Block) -> usize {
        let id = self.program.bodies.len();
        self.program.bodies.push(Body::default());
        let mut body = Body { nodes: 2, ..Body::default() };
        let mut outside = Vec::new();
        if let Some(a) = alternative {
            body.formals.clone_from(&a.formals);
            body.span = a.span;
            outside.push((INPUT, OUTPUT));
        }
        let mut scope = Scope {
            id,
            body,
            names: HashMap::new(),
            class_uses: HashMap::new(),
            last_number: HashMap::new(),
            variables: HashMap::new(),
            outside,
            groups: Vec::new(),
        };
        self.classes.push(HashMap::new());
        let at_file = std::mem::replace(&mut self.file_scope, alternative.is_none());
        self.block(&mut scope, block);
        self.file_scope = at_file;
        self.classes.pop();
        self.check_groups(&scope);
        note_port_use(&mut scope.body);
        if alternative.is_some() {
            let (inputs, outputs) = self.outside_ports(&scope, INPUT, OUTPUT, 0, None);
            (scope.body.inputs, scope.body.outputs) = (inputs, outputs);
        }
        self.program.bodies[id] = scope.body;
        id
    }

    /// The statements of a block, or of a group within it.
    pub fn block(&mut self, scope: &mut Scope, block: &Block) {
        self.lost.extend(block.lost.iter().cloned());
        for item in &block.items {
            match &item.statement {
                Statement::Chain(chain) => self.chain(scope, chain),
                Statement::Class(definition) => self.class_definition(scope, definition),
                Statement::Define(definitions) => self.define(scope, &definitions.items),
                Statement::Require(requirements) => {
                    for r in &requirements.items {
                        self.requirement(scope, r);
                    }
                }
            }
        }
    }

    /// A name can be defined once in a scope.
    fn define(&mut self, scope: &mut Scope, definitions: &[Definition]) {
        for d in definitions {
            if let Some(&first) = scope.variables.get(&d.name.name) {
                let message = format!("parameter '${}' multiply defined", d.name.name);
                let d = Diagnostic::error(d.name.span, message).code("multiply-defined");
                self.error(d.note(first, "first defined here"));
            } else {
                scope.variables.insert(d.name.name.clone(), d.name.span);
            }
        }
        scope.body.definitions.push(definitions.to_vec());
    }

    /// The ports that a group has must all be connected, and no others.
    fn check_groups(&mut self, scope: &Scope) {
        let mut used: HashMap<NodeId, [PortUse; 2]> = HashMap::new();
        for group in &scope.groups {
            used.insert(group.node, Default::default());
        }
        for wire in &scope.body.wires {
            if let Some([inputs, _]) = used.get_mut(&wire.to.node) {
                inputs.add(wire.to.port, wire.to.span);
            }
            if let Some([_, outputs]) = used.get_mut(&wire.from.node) {
                outputs.add(wire.from.port, wire.from.span);
            }
        }
        for group in &scope.groups {
            let Some([inputs, outputs]) = used.get(&group.node) else { continue };
            for (used, count, word) in [(inputs, group.inputs, "input"), (outputs, group.outputs, "output")] {
                if let Some((port, span)) = used.beyond(count) {
                    let message = format!("'<anonymous group>' has no {word} {port}");
                    self.error(Diagnostic::error(span, message).code("no-port"));
                }
                if let Some(port) = used.gap(count) {
                    let message = format!("'<anonymous group>' {word} {port} unused");
                    self.error(Diagnostic::error(group.span, message).code("unused-port"));
                }
            }
        }
    }

    fn requirement(&mut self, scope: &mut Scope, r: &Requirement) {
        if r.kind != "library" {
            let stored = Requirement { library: None, ..r.clone() };
            self.program.requirements.push(stored);
            return;
        }
        if !self.file_scope || !scope.outside.is_empty() {
            let message = "'require library' must be used at file scope";
            self.error(Diagnostic::error(r.span, message).code("library"));
            return;
        }
        match &r.library {
            Some(block) => self.block(scope, block),
            None => {
                let message = format!("library '{}' has not been loaded", r.value);
                self.error(Diagnostic::error(r.span, message).code("library"));
            }
        }
    }

    fn class_definition(&mut self, scope: &mut Scope, definition: &ClassDefinition) {
        let name = &definition.name;
        // The new class becomes visible behind its definition, so it cannot contain itself.
        let class = match &definition.class {
            Class::Name(old) => self.named_class(scope, old),
            Class::Compound(compound) => {
                let before = self.lookup_class(&name.name);
                self.compound(scope, compound, &name.name, before)
            }
        };
        if let Some(visible) = self.classes.last_mut() {
            visible.insert(name.name.clone(), class);
        }
    }

    /// The class and its name for messages and anonymous elements.
    pub fn class(&mut self, scope: &mut Scope, class: &Class) -> (ClassRef, String) {
        match class {
            Class::Name(name) => (self.named_class(scope, name), name.name.clone()),
            Class::Compound(compound) => (self.compound(scope, compound, "", None), String::new()),
        }
    }

    fn compound(
        &mut self,
        scope: &Scope,
        compound: &Compound,
        name: &str,
        before: Option<ClassRef>,
    ) -> ClassRef {
        let otherwise = match (compound.extends, before) {
            (Some(_), Some(class)) => Some(class),
            (Some(span), None) => {
                let what = if name.is_empty() { "this class has no name" } else { "there is no such class" };
                let message = format!("`...` stands for what `{name}` meant before, but {what}");
                self.error(Diagnostic::error(span, message).code("extends"));
                Some(ClassRef::Unknown)
            }
            (None, _) => None,
        };
        let alternatives = compound.alternatives.iter().map(|a| self.body(Some(a), &a.block)).collect();
        let class = CompoundClass { name: name.to_string(), alternatives, otherwise, home: scope.id };
        self.program.compounds.push(class);
        ClassRef::Compound(self.program.compounds.len() - 1)
    }

    pub fn lookup_class(&self, name: &str) -> Option<ClassRef> {
        let compound = self.classes.iter().rev().find_map(|c| c.get(name)).cloned();
        compound.or_else(|| self.table.has(name).then(|| ClassRef::Primitive(name.to_string())))
    }

    /// The class which an identifier names; it must not name an element too.
    pub fn named_class(&mut self, scope: &mut Scope, name: &Ident) -> ClassRef {
        if let Some(&member) = scope.names.get(&name.name) {
            let declared = scope.body.members[member].span;
            let message = format!("class '{}' used as element name", name.name);
            self.error(
                Diagnostic::error(name.span, message).code("class-as-name").note(declared, "declared here"),
            );
            return ClassRef::Unknown;
        }
        scope.class_uses.entry(name.name.clone()).or_insert(name.span);
        match self.lookup_class(&name.name) {
            Some(class) => class,
            None => {
                self.unknown_class(name);
                ClassRef::Unknown
            }
        }
    }

    fn unknown_class(&mut self, name: &Ident) {
        if self.lost.contains(&name.name) {
            return;
        }
        let suggestion = self.suggest(&name.name, &[]);
        let message = match &suggestion {
            Some(s) => format!("no element class `{}`; did you mean `{s}`?", name.name),
            None => format!("no element class `{}`", name.name),
        };
        let mut d = Diagnostic::error(name.span, message)
            .code("unknown-class")
            .click(format!("unknown element class '{}'", name.name));
        if let Some(s) = suggestion {
            d = d.help(format!("write `{s}`"));
        } else {
            d = d.help("`routebricks elements` lists the classes there are");
        }
        self.error(d);
    }

    /// A name alone that is neither element nor class.
    pub fn undeclared(&mut self, scope: &Scope, name: &Ident) {
        if self.lost.contains(&name.name) {
            return;
        }
        let elements: Vec<&str> = scope.names.keys().map(String::as_str).collect();
        let suggestion = self.suggest(&name.name, &elements);
        let looks_like_class = name.name.starts_with(|c: char| c.is_ascii_uppercase());
        let what = if looks_like_class { "element class" } else { "element" };
        let mut d = match &suggestion {
            Some(s) => {
                Diagnostic::error(name.span, format!("no {what} `{}`; did you mean `{s}`?", name.name))
                    .help(format!("write `{s}`"))
            }
            None if looks_like_class => Diagnostic::error(name.span, format!("no {what} `{}`", name.name))
                .help("`routebricks elements` lists the classes there are"),
            None => Diagnostic::error(name.span, format!("no {what} `{}`", name.name))
                .help(format!("declare it before it is used: `{} :: Class(...);`", name.name)),
        };
        d = d.code("undeclared").click(format!("undeclared element '{}'", name.name));
        self.error(d);
    }

    fn suggest(&mut self, name: &str, elements: &[&str]) -> Option<String> {
        self.suggestions += 1;
        if self.suggestions > MAX_SUGGESTIONS {
            return None;
        }
        let compounds = self.classes.iter().flat_map(|c| c.keys().map(String::as_str));
        let names = self.table.names();
        nearest(name, elements.iter().copied().chain(compounds).chain(names)).map(str::to_string)
    }

    /// Declares an element, named or (with `None`) anonymous.
    pub fn declare(
        &mut self,
        scope: &mut Scope,
        name: Option<&Ident>,
        span: Span,
        class: (ClassRef, String),
        config: Text,
    ) -> NodeId {
        let (class, class_name) = class;
        let full = match name {
            Some(ident) => {
                self.check_declaration(scope, ident);
                ident.name.clone()
            }
            None => anonymous_name(scope, &class_name),
        };
        let node = scope.new_node();
        scope.names.entry(full.clone()).or_insert(scope.body.members.len());
        scope.body.members.push(Member {
            node,
            name: full,
            span,
            class,
            class_name,
            config,
            inputs: Default::default(),
            outputs: Default::default(),
        });
        node
    }

    fn check_declaration(&mut self, scope: &Scope, name: &Ident) {
        let text = &name.name;
        if !scope.outside.is_empty() && (text == "input" || text == "output") {
            let message = format!("'{text}' is the outside here and cannot be declared");
            self.error(Diagnostic::error(name.span, message).code("reserved-name"));
        }
        if let Some(&old) = scope.names.get(text) {
            let message = format!("redeclaration of element '{text}'");
            let note = format!("element '{text}' previously declared here");
            let old = scope.body.members[old].span;
            self.error(Diagnostic::error(name.span, message).code("redeclaration").note(old, note));
        } else if let Some(&used) = scope.class_uses.get(text) {
            let message = format!("class '{text}' used as element name");
            self.error(
                Diagnostic::error(name.span, message).code("class-as-name").note(used, "used as class here"),
            );
        }
    }
}

/// `Class@N`, N being one more than the number of elements declared in this scope; raised while it is taken.
fn anonymous_name(scope: &mut Scope, class: &str) -> String {
    // All numbers up to the last one given to this class are taken.
    let last = scope.last_number.get(class).copied().unwrap_or(0);
    let mut number = scope.body.members.len().max(last) + 1;
    loop {
        let name = format!("{class}@{number}");
        if !scope.names.contains_key(&name) {
            scope.last_number.insert(class.to_string(), number);
            return name;
        }
        number += 1;
    }
}

/// Notes for each member which of its ports are connected.
fn note_port_use(body: &mut Body) {
    let mut member_of = vec![None; body.nodes];
    for (i, member) in body.members.iter().enumerate() {
        member_of[member.node] = Some(i);
    }
    for wire in &body.wires {
        if let Some(i) = member_of[wire.from.node] {
            body.members[i].outputs.add(wire.from.port, wire.from.span);
        }
        if let Some(i) = member_of[wire.to.node] {
            body.members[i].inputs.add(wire.to.port, wire.to.span);
        }
    }
}
