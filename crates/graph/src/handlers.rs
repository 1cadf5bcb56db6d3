//! Handlers: the one way to look into an element or to change it while it runs.

use crate::NodeId;
use crate::engine::mailbox::Mailbox;
use crate::notify::Notifier;
use std::any::Any;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

/// What a handler may do beside reading or changing the class value: wake tasks.
#[derive(Debug)]
pub struct HandlerCx<'a> {
    pub(crate) node: NodeId,
    pub(crate) mailboxes: &'a [Arc<Mailbox>],
}

impl HandlerCx<'_> {
    /// Wakes the element's own task wherever it lives.
    pub fn wake(&self) {
        self.wake_element(self.node);
    }

    /// Wakes another element's task wherever it lives.
    pub fn wake_element(&self, node: NodeId) {
        for mailbox in self.mailboxes {
            mailbox.wake(node);
        }
    }

    /// Wakes the tasks that pull from a storage.
    pub fn notify_pullers(&self, storage: &Notifier) {
        self.wake_listeners(storage.pullers());
    }

    /// Wakes the sources that push into a storage.
    pub fn notify_pushers(&self, storage: &Notifier) {
        self.wake_listeners(storage.pushers());
    }

    fn wake_listeners(&self, listeners: &[(usize, NodeId)]) {
        for &(worker, node) in listeners {
            if let Some(mailbox) = self.mailboxes.get(worker) {
                mailbox.wake(node);
            }
        }
    }
}

type Read<C> = Box<dyn Fn(&C, &str) -> Result<String, String> + Send + Sync>;
type Write<C> = Box<dyn Fn(&C, &str, &HandlerCx<'_>) -> Result<(), String> + Send + Sync>;
type AnyRead = Box<dyn Fn(&dyn Any, &str) -> Result<String, String> + Send + Sync>;
type AnyWrite = Box<dyn Fn(&dyn Any, &str, &HandlerCx<'_>) -> Result<(), String> + Send + Sync>;

/// One handler of an element, over its class value.
pub struct Handler {
    /// Its name.
    pub name: &'static str,
    pub(crate) read: Option<AnyRead>,
    pub(crate) write: Option<AnyWrite>,
}

impl fmt::Debug for Handler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Handler({} {})", self.name, self.mode())
    }
}

impl Handler {
    /// `r`, `w` or `rw`.
    pub fn mode(&self) -> &'static str {
        match (&self.read, &self.write) {
            (Some(_), Some(_)) => "rw",
            (Some(_), None) => "r",
            _ => "w",
        }
    }
}

/// Takes the handlers that a class offers, in the order in which they are listed to users.
#[derive(Debug)]
pub struct Handlers<C> {
    list: Vec<Handler>,
    of: PhantomData<fn(&C)>,
}

impl<C: 'static> Handlers<C> {
    pub(crate) fn new() -> Handlers<C> {
        Handlers { list: Vec::new(), of: PhantomData }
    }

    pub(crate) fn into_list(self) -> Vec<Handler> {
        self.list
    }

    /// A read handler without parameter.
    pub fn read(&mut self, name: &'static str, f: impl Fn(&C) -> String + Send + Sync + 'static) {
        self.read_with(name, move |c, _| Ok(f(c)));
    }

    /// A read handler with a parameter, which may be refused.
    pub fn read_with(
        &mut self,
        name: &'static str,
        f: impl Fn(&C, &str) -> Result<String, String> + Send + Sync + 'static,
    ) {
        let f: Read<C> = Box::new(f);
        self.slot(name).read = Some(Box::new(move |any, text| match any.downcast_ref() {
            Some(c) => f(c, text),
            None => Err("handler of another class".to_owned()),
        }));
    }

    /// A write handler; the error is shown to whoever wrote.
    pub fn write(
        &mut self,
        name: &'static str,
        f: impl Fn(&C, &str, &HandlerCx<'_>) -> Result<(), String> + Send + Sync + 'static,
    ) {
        let f: Write<C> = Box::new(f);
        self.slot(name).write = Some(Box::new(move |any, text, cx| match any.downcast_ref() {
            Some(c) => f(c, text, cx),
            None => Err("handler of another class".to_owned()),
        }));
    }

    fn slot(&mut self, name: &'static str) -> &mut Handler {
        let at = match self.list.iter().position(|h| h.name == name) {
            Some(at) => at,
            None => {
                self.list.push(Handler { name, read: None, write: None });
                self.list.len() - 1
            }
        };
        &mut self.list[at]
    }
}

/// Reads a value that was written to a handler.
///
/// # Errors
/// What is wrong with the text, for whoever wrote it.
pub fn value<T: lang::args::FromArg>(text: &str) -> Result<T, String> {
    let text = lang::Text::verbatim(text.trim(), lang::Span::default());
    T::from_arg(&text).map_err(|e| if text.text.is_empty() { "value missing".to_owned() } else { e.message })
}

/// Why a handler call failed; the texts are Click's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HandlerError {
    /// There is no such element.
    #[error("no element named '{0}'")]
    NoElement(String),
    /// There is no such handler.
    #[error("no '{0}' handler")]
    NoHandler(String),
    /// The handler cannot be read.
    #[error("'{0}' is not readable")]
    NotReadable(String),
    /// The handler cannot be written.
    #[error("'{0}' is not writable")]
    NotWritable(String),
    /// The handler refused.
    #[error("{0}")]
    Failed(String),
}
