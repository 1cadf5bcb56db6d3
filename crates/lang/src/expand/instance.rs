//! Making the elements: overloads are chosen, variables replaced, compounds entered.

use super::Limits;
use super::body::{Body, ClassRef, INPUT, Member, NodeId, OUTPUT, Program};
use super::formals::{bind, given, signature};
use super::stitch::{Stitcher, Strand};
use super::variables::{Env, Variables};
use crate::args;
use crate::diagnostic::Diagnostic;
use crate::flat::{Flat, FlatElement, Scope, Target, uses};
use crate::parse::MAX_ERRORS;
use crate::source::Span;
use crate::text::Text;

/// Alternatives that are tried before expansion gives up.
const MAX_TRIALS: usize = 5_000_000;

pub(super) struct Expansion<'p> {
    program: &'p Program,
    limits: Limits,
    flat: Flat,
    variables: Variables,
    stitcher: Stitcher,
    pub(super) diagnostics: Vec<Diagnostic>,
    trials: usize,
    /// A limit was exceeded; nothing more is made.
    stopped: bool,
}

/// Where the present body's elements go.
#[derive(Clone, Copy)]
struct Place {
    scope: usize,
    env: usize,
    depth: usize,
}

/// What a member turns out to be.
enum Choice {
    Primitive(String),
    /// A body, its formals' values, and the body whose variables it sees.
    Inside(usize, Vec<(String, String)>, usize),
    /// An error has been reported.
    Nothing,
}

impl<'p> Expansion<'p> {
    pub fn new(program: &'p Program, limits: Limits) -> Expansion<'p> {
        Expansion {
            program,
            limits,
            flat: Flat::default(),
            variables: Variables { envs: Vec::new(), budget: limits.config_bytes },
            stitcher: Stitcher::new(limits.connections),
            diagnostics: Vec::new(),
            trials: 0,
            stopped: false,
        }
    }

    pub fn run(&mut self, top: usize, overrides: &[(String, String)]) {
        let values = overrides.iter().cloned().collect();
        self.variables.envs.push(Env { values, parent: None, body: top, raw: true });
        self.flat.scopes.push(Scope {
            name: String::new(),
            class: String::new(),
            span: Span::default(),
            parent: None,
        });
        let mut env = Env { parent: Some(0), body: top, ..Env::default() };
        env.values.reserve(self.program.bodies[top].definitions.len());
        self.variables.envs.push(env);
        self.enter(top, Place { scope: 0, env: 1, depth: 0 });
        if !crate::has_errors(&self.diagnostics) {
            match self.stitcher.connections() {
                Ok(connections) => self.flat.connections = connections,
                Err(span) => {
                    self.limit(span, 0, format!("more than {} connections", self.limits.connections));
                }
            }
        }
    }

    pub fn finish(self) -> Flat {
        self.flat
    }

    fn error(&mut self, scope: usize, mut d: Diagnostic) {
        if self.diagnostics.len() < MAX_ERRORS {
            d.uses = uses(&self.flat.scopes, scope);
            self.diagnostics.push(d);
        }
    }

    fn limit(&mut self, span: Span, scope: usize, message: String) {
        if !self.stopped {
            self.stopped = true;
            self.error(scope, Diagnostic::error(span, message).code("limit"));
        }
    }

    /// Makes the elements of a body; the result is the number of its first node.
    fn enter(&mut self, body: usize, place: Place) -> NodeId {
        let program = self.program;
        let body = &program.bodies[body];
        self.define(body, place);
        let base = self.stitcher.add_nodes(body.nodes);
        for &(arrive, leave) in &body.through {
            self.stitcher.join(base + arrive, base + leave);
        }
        for wire in &body.wires {
            let strand = Strand {
                from: (base + wire.from.node, wire.from.port),
                to: (base + wire.to.node, wire.to.port),
                span: wire.span,
                from_span: wire.from.span,
                to_span: wire.to.span,
            };
            if !self.stitcher.add(strand) {
                let message = format!("more than {} connections", self.limits.connections);
                self.limit(wire.span, place.scope, message);
                return base;
            }
        }
        let mut insides = Vec::new();
        for member in &body.members {
            if self.stopped {
                return base;
            }
            let config = self.config(&member.config, member.span, place);
            match self.choose(member, &config, place) {
                Choice::Primitive(class) => {
                    let index = self.add_element(member, class, config, place);
                    self.stitcher.set_element(base + member.node, index);
                }
                Choice::Inside(body, values, home) => insides.push((member, body, values, home)),
                Choice::Nothing => {}
            }
        }
        for (member, body, values, home) in insides {
            if self.stopped {
                return base;
            }
            if let Some(inside) = self.add_compound(member, body, values, home, place) {
                self.stitcher.join(base + member.node, inside + INPUT);
                self.stitcher.join(inside + OUTPUT, base + member.node);
            }
        }
        base
    }

    /// The values of one `define` may use those of the ones before it.
    fn define(&mut self, body: &Body, place: Place) {
        for definitions in &body.definitions {
            let mut values = Vec::with_capacity(definitions.len());
            for d in definitions {
                let overridden = place.scope == 0 && self.variables.envs[0].values.contains_key(&d.name.name);
                if !overridden {
                    let value = self.config(&d.value, d.name.span, place);
                    values.push((d.name.name.clone(), value.text));
                }
            }
            for (name, value) in values {
                self.variables.envs[place.env].values.entry(name).or_insert(value);
            }
        }
    }

    fn config(&mut self, text: &Text, span: Span, place: Place) -> Text {
        match self.variables.substitute(text, place.env) {
            Ok(text) => text,
            Err(_) => {
                let message = format!(
                    "configuration strings grow to more than {} MiB when variables are replaced",
                    self.limits.config_bytes >> 20
                );
                self.limit(span, place.scope, message);
                Text::empty(text.span)
            }
        }
    }

    fn full_name(&self, member: &Member, scope: usize) -> String {
        match self.flat.scopes.get(scope).map(|s| s.name.as_str()) {
            None | Some("") => member.name.clone(),
            Some(prefix) => format!("{prefix}/{}", member.name),
        }
    }

    fn count(&mut self, span: Span, scope: usize) {
        if self.flat.elements.len() + self.flat.scopes.len() > self.limits.elements {
            self.limit(span, scope, format!("more than {} elements after expansion", self.limits.elements));
        }
    }

    fn enter_name(&mut self, name: &str, target: Target, span: Span, scope: usize) {
        if let Some(old) = self.flat.by_name.insert(name.to_string(), target) {
            let old = match old {
                Target::Element(i) => self.flat.elements.get(i).map(|e| e.span),
                Target::Compound(i) => self.flat.scopes.get(i).map(|s| s.span),
            };
            let message = format!("redeclaration of element '{name}'");
            let mut d = Diagnostic::error(span, message).code("redeclaration");
            if let Some(old) = old {
                d = d.note(old, format!("element '{name}' previously declared here"));
            }
            self.error(scope, d);
        }
    }

    fn add_element(&mut self, member: &Member, class: String, config: Text, place: Place) -> usize {
        let name = self.full_name(member, place.scope);
        let index = self.flat.elements.len();
        self.enter_name(&name, Target::Element(index), member.span, place.scope);
        self.flat.elements.push(FlatElement { name, class, config, span: member.span, scope: place.scope });
        self.count(member.span, place.scope);
        index
    }

    fn add_compound(
        &mut self,
        member: &Member,
        body: usize,
        values: Vec<(String, String)>,
        home: usize,
        place: Place,
    ) -> Option<NodeId> {
        if place.depth >= self.limits.depth {
            let message = format!("compound elements nest more than {} deep", self.limits.depth);
            self.limit(member.span, place.scope, message);
            return None;
        }
        let name = self.full_name(member, place.scope);
        let scope = self.flat.scopes.len();
        self.enter_name(&name, Target::Compound(scope), member.span, place.scope);
        let class = member.class_name.clone();
        self.flat.scopes.push(Scope { name, class, span: member.span, parent: Some(place.scope) });
        self.count(member.span, place.scope);
        let parent = Some(self.variables.enclosing(place.env, home));
        let env = self.variables.envs.len();
        self.variables.envs.push(Env { values: values.into_iter().collect(), parent, body, raw: false });
        Some(self.enter(body, Place { scope, env, depth: place.depth + 1 }))
    }

    fn choose(&mut self, member: &Member, config: &Text, place: Place) -> Choice {
        let program = self.program;
        let mut class = &member.class;
        let mut arguments = None;
        let mut tried = Vec::new();
        loop {
            let compound = match class {
                ClassRef::Primitive(name) => return Choice::Primitive(name.clone()),
                ClassRef::Unknown => return Choice::Nothing,
                ClassRef::Compound(i) => &program.compounds[*i],
            };
            let arguments = arguments.get_or_insert_with(|| args::split(config));
            let single = compound.alternatives.len() == 1 && compound.otherwise.is_none() && tried.is_empty();
            for &alternative in &compound.alternatives {
                self.trials += 1 + arguments.len();
                let body = &program.bodies[alternative];
                let fits = member.inputs.count() == body.inputs && member.outputs.count() == body.outputs;
                let values = if fits || single { bind(&body.formals, arguments) } else { None };
                if let Some(values) = values {
                    self.check_ports(member, body, place);
                    return Choice::Inside(alternative, values, compound.home);
                }
                tried.push((compound.name.as_str(), body));
            }
            if self.trials > MAX_TRIALS {
                self.limit(
                    member.span,
                    place.scope,
                    "too many overloaded classes to choose among".to_string(),
                );
                return Choice::Nothing;
            }
            match &compound.otherwise {
                Some(next) => class = next,
                None => {
                    let count = arguments.len();
                    self.no_match(member, count, &tried, place);
                    return Choice::Nothing;
                }
            }
        }
    }

    fn no_match(&mut self, member: &Member, arguments: usize, tried: &[(&str, &Body)], place: Place) {
        let what = given(&member.class_name, arguments, member.inputs.count(), member.outputs.count());
        let mut d = Diagnostic::error(member.span, format!("no match for '{what}'; candidates are:"))
            .code("no-match")
            .click(format!("no match for '{what}'\ncandidates are:"));
        for (name, body) in tried.iter().take(20) {
            d = d.note(body.span, signature(name, &body.formals, body.inputs, body.outputs));
        }
        self.error(place.scope, d);
    }

    /// Every port that the compound has must be connected, and no other.
    fn check_ports(&mut self, member: &Member, body: &Body, place: Place) {
        let name = self.full_name(member, place.scope);
        for (used, count, word) in
            [(&member.inputs, body.inputs, "input"), (&member.outputs, body.outputs, "output")]
        {
            if let Some((port, span)) = used.beyond(count) {
                let message = format!("'{name}' has no {word} {port}");
                self.error(place.scope, Diagnostic::error(span, message).code("no-port"));
            }
            if let Some(port) = used.gap(count) {
                let message = format!("'{name}' {word} {port} unused");
                self.error(place.scope, Diagnostic::error(member.span, message).code("unused-port"));
            }
        }
    }
}
