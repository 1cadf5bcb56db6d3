//! Elements and their handlers by name.

use super::Router;
use super::task_handlers::NAMES;
use crate::NodeId;
use crate::handlers::{Handler, HandlerCx, HandlerError};
use crate::plan::Kind;

impl Router {
    /// The element of this name.
    pub fn find(&self, name: &str) -> Option<NodeId> {
        self.flat.find(name).map(NodeId::new)
    }

    /// An element's handlers.
    pub fn handlers(&self, node: NodeId) -> &[Handler] {
        self.handlers.get(node.index()).map_or(&[], |h| h)
    }

    /// Reads `handler` of `element`.
    ///
    /// # Errors
    /// If there is no such element or handler, or the handler refuses.
    pub fn read(&self, element: &str, handler: &str, parameter: &str) -> Result<String, HandlerError> {
        let node = self.find(element).ok_or_else(|| HandlerError::NoElement(element.to_owned()))?;
        let full = || format!("{element}.{handler}");
        let Some(h) = self.handlers(node).iter().find(|h| h.name == handler) else {
            return self.read_generic(node, handler).ok_or_else(|| HandlerError::NoHandler(full()));
        };
        let read = h.read.as_ref().ok_or_else(|| HandlerError::NotReadable(full()))?;
        read(self.shared[node.index()].as_any(), parameter).map_err(HandlerError::Failed)
    }

    /// Whether `handler` of `element` is there to be read, without reading it.
    ///
    /// # Errors
    /// If it is not.
    pub fn check_readable(&self, element: &str, handler: &str) -> Result<(), HandlerError> {
        let node = self.find(element).ok_or_else(|| HandlerError::NoElement(element.to_owned()))?;
        let full = || format!("{element}.{handler}");
        match self.handlers(node).iter().find(|h| h.name == handler) {
            Some(h) if h.read.is_none() => Err(HandlerError::NotReadable(full())),
            None if self.read_generic(node, handler).is_none() => Err(HandlerError::NoHandler(full())),
            _ => Ok(()),
        }
    }

    /// Writes `handler` of `element`.
    ///
    /// # Errors
    /// If there is no such element or handler, or the handler refuses.
    pub fn write(&self, element: &str, handler: &str, value: &str) -> Result<(), HandlerError> {
        let node = self.find(element).ok_or_else(|| HandlerError::NoElement(element.to_owned()))?;
        let full = || format!("{element}.{handler}");
        let Some(h) = self.handlers(node).iter().find(|h| h.name == handler) else {
            if let Some(done) = self.write_task(node, handler, value) {
                return done.map_err(HandlerError::Failed);
            }
            let known = self.read_generic(node, handler).is_some();
            return Err(if known {
                HandlerError::NotWritable(full())
            } else {
                HandlerError::NoHandler(full())
            });
        };
        let write = h.write.as_ref().ok_or_else(|| HandlerError::NotWritable(full()))?;
        let cx = HandlerCx { node, mailboxes: &self.mailboxes };
        write(self.shared[node.index()].as_any(), value, &cx).map_err(HandlerError::Failed)
    }

    /// The handlers that every element has.
    fn read_generic(&self, node: NodeId, handler: &str) -> Option<String> {
        let n = self.plan.node(node);
        Some(match handler {
            "name" => n.name.clone(),
            "class" => n.spec().name.to_owned(),
            "config" => self.flat.elements[node.index()].config.text.clone(),
            "ports" => self.ports_text(node),
            "handlers" => self.handlers_text(node),
            "home_thread" => self.home(node).map_or(-1, |h| i64::try_from(h).unwrap_or(-1)).to_string(),
            "drops" => self.losses_of(node).iter().map(|l| l.packets).sum::<u64>().to_string(),
            _ => return self.read_task(node, handler),
        })
    }

    fn handlers_text(&self, node: NodeId) -> String {
        let own = self.handlers(node).iter().map(|h| format!("{}\t{}\n", h.name, h.mode()));
        let generic = ["class", "config", "drops", "handlers", "home_thread", "name", "ports"];
        let generic = generic.iter().map(|name| (*name, "r"));
        let tasks = NAMES.iter().filter(|_| self.owns_task(node)).map(|name| (*name, "rw"));
        let all =
            generic.chain(tasks).filter(|(name, _)| !self.handlers(node).iter().any(|h| h.name == *name));
        own.chain(all.map(|(name, mode)| format!("{name}\t{mode}\n"))).collect()
    }

    /// Click's `ports` text: counts, then per port push or pull and its peers.
    fn ports_text(&self, node: NodeId) -> String {
        use std::fmt::Write;
        let n = self.plan.node(node);
        let mut text = String::new();
        for (inputs, what, kinds) in [(true, "input", &n.inputs), (false, "output", &n.outputs)] {
            let _ = writeln!(text, "{} {what}{}", kinds.len(), if kinds.len() == 1 { "" } else { "s" });
            for (port, kind) in kinds.iter().enumerate() {
                let code = crate::spec::processing(n.spec().processing, !inputs, port);
                let agnostic = if code == crate::spec::Processing::Agnostic { "~" } else { "" };
                let kind = if *kind == Kind::Push { "push" } else { "pull" };
                let _ = writeln!(text, "{kind}{agnostic}\t-\t{}", self.peers(node, port, inputs).join(", "));
            }
        }
        text
    }

    fn peers(&self, node: NodeId, port: usize, inputs: bool) -> Vec<String> {
        let name = |id: NodeId| &self.plan.node(id).name;
        let connections = self.plan.connections.iter();
        if inputs {
            let mine = connections.filter(|c| c.to == (node, port));
            mine.map(|c| format!("{} [{}]", name(c.from.0), c.from.1)).collect()
        } else {
            let mine = connections.filter(|c| c.from == (node, port));
            mine.map(|c| format!("[{}] {}", c.to.1, name(c.to.0))).collect()
        }
    }
}
