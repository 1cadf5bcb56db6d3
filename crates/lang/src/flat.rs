//! A configuration without compounds, groups and variables: elements and connections.

use crate::ast::Requirement;
use crate::diagnostic::{Diagnostic, Label};
use crate::source::Span;
use crate::text::Text;
use std::collections::HashMap;

/// An element of a primitive class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlatElement {
    /// Full name, `compound/part`.
    pub name: String,
    /// Its class.
    pub class: String,
    /// Configuration string with variables replaced.
    pub config: Text,
    /// The place of its name, or of its class if it has no name.
    pub span: Span,
    /// Index in [`Flat::scopes`] of the compound it is part of; 0 is the outside.
    pub scope: usize,
}

/// A connection between two primitive elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlatConnection {
    /// Index in [`Flat::elements`] and output port.
    pub from: (usize, u32),
    /// Index in [`Flat::elements`] and input port.
    pub to: (usize, u32),
    /// The place of the arrow.
    pub span: Span,
    /// The place of the output port, or of the element if no port is written.
    pub from_span: Span,
    /// The place of the input port, or of the element if no port is written.
    pub to_span: Span,
}

/// A compound element, or the outside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scope {
    /// Full name; empty for the outside.
    pub name: String,
    /// Its class; empty for the outside and for `{ ... }`.
    pub class: String,
    /// The place of its name.
    pub span: Span,
    /// The compound it is part of; `None` for the outside.
    pub parent: Option<usize>,
}

/// What a name in an argument stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// An element: index in [`Flat::elements`].
    Element(usize),
    /// A compound element: index in [`Flat::scopes`].
    Compound(usize),
}

/// A configuration without compounds, groups and variables.
#[derive(Clone, Debug, Default)]
pub struct Flat {
    /// What the text requires, in text order.
    pub requirements: Vec<Requirement>,
    /// Elements of the outer level first, in text order, then the insides of compounds.
    pub elements: Vec<FlatElement>,
    /// Connections, ordered by the output they leave and then the input they reach; no two are equal.
    pub connections: Vec<FlatConnection>,
    /// The outside (index 0) and every compound element.
    pub scopes: Vec<Scope>,
    /// What is doubtful but usable.
    pub warnings: Vec<Diagnostic>,
    pub(crate) by_name: HashMap<String, Target>,
}

impl Flat {
    /// The element of this full name.
    pub fn find(&self, name: &str) -> Option<usize> {
        match self.by_name.get(name) {
            Some(Target::Element(i)) => Some(*i),
            _ => None,
        }
    }

    /// The element which `name` means in an argument of element `from`: looked up in the compound that `from`
    /// is part of, then in the one around it, and so on.
    pub fn resolve(&self, from: usize, name: &str) -> Option<usize> {
        self.search(from, |flat, full| flat.find(full), name)
    }

    /// As [`Flat::resolve`], for names that may also be compounds.
    pub fn resolve_target(&self, from: usize, name: &str) -> Option<Target> {
        self.search(from, |flat, full| flat.by_name.get(full).copied(), name)
    }

    fn search<T>(&self, from: usize, find: impl Fn(&Flat, &str) -> Option<T>, name: &str) -> Option<T> {
        let mut scope = self.elements.get(from).map(|e| e.scope);
        while let Some(s) = scope.and_then(|i| self.scopes.get(i)) {
            let found =
                if s.name.is_empty() { find(self, name) } else { find(self, &format!("{}/{name}", s.name)) };
            if found.is_some() {
                return found;
            }
            scope = s.parent;
        }
        None
    }

    /// The elements inside a compound, those of inner compounds too.
    pub fn members(&self, scope: usize) -> impl Iterator<Item = usize> + '_ {
        let within = move |mut s: usize| {
            while s != scope {
                match self.scopes.get(s).and_then(|x| x.parent) {
                    Some(parent) => s = parent,
                    None => return false,
                }
            }
            true
        };
        self.elements.iter().enumerate().filter(move |(_, e)| within(e.scope)).map(|(i, _)| i)
    }

    /// The compounds around element `element`, innermost first, for [`Diagnostic::uses`].
    pub fn uses(&self, element: usize) -> Vec<Label> {
        self.elements.get(element).map_or(Vec::new(), |e| uses(&self.scopes, e.scope))
    }
}

/// The compounds from `scope` outward.
pub(crate) fn uses(scopes: &[Scope], scope: usize) -> Vec<Label> {
    let mut chain = Vec::new();
    let mut at = Some(scope);
    while let Some(s) = at.and_then(|i| scopes.get(i)) {
        if s.parent.is_some() {
            let class = if s.class.is_empty() { "{...}" } else { &s.class };
            chain.push(Label { span: s.span, text: format!("{} :: {class}", s.name) });
        }
        at = s.parent;
    }
    chain
}
