//! Bounds on connections: how many at once, how long one may stay silent, and how long a request may take to arrive.
//!
//! A new connection is always taken: where there is no room, the one that has done nothing for the longest time is closed.

use axum::serve::Listener;
use std::future::Future;
use std::io::{ErrorKind, Result};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::oneshot;
use tokio::time::{Instant, Sleep, sleep};

/// Connections at once.
const CONNECTIONS: usize = 64;
/// A connection on which nothing moves for so long is closed, …
const SILENCE: Duration = Duration::from_secs(30);
/// … and one on which the head of a request is still not whole so long after its first byte.
const HEAD: Duration = Duration::from_secs(10);
const END_OF_HEAD: &[u8] = b"\r\n\r\n";

/// A listener within these bounds.
pub struct Bounded<L> {
    listener: L,
    open: Vec<Open>,
}

/// A connection as its listener sees it; dropping it closes the connection.
struct Open {
    close: oneshot::Sender<()>,
    state: Arc<Mutex<State>>,
}

/// What a connection does.
#[derive(Clone, Copy, Debug)]
struct State {
    /// A request has come whole, and nothing of the answer has gone.
    busy: bool,
    /// When something last moved.
    since: Instant,
}

impl<L> Bounded<L> {
    /// Bounds a listener.
    pub fn new(listener: L) -> Bounded<L> {
        Bounded { listener, open: Vec::new() }
    }

    /// Makes room for another connection.
    fn make_room(&mut self) {
        self.open.retain(|open| !open.close.is_closed());
        if self.open.len() >= CONNECTIONS {
            let state = |open: &Open| *lock(&open.state);
            let quiet =
                self.open.iter().enumerate().min_by_key(|(_, open)| (state(open).busy, state(open).since));
            if let Some((quiet, _)) = quiet {
                self.open.swap_remove(quiet);
            }
        }
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<L: Listener> Listener for Bounded<L> {
    type Io = Connection<L::Io>;
    type Addr = L::Addr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        let (stream, address) = self.listener.accept().await;
        self.make_room();
        let (close, closed) = oneshot::channel();
        let state = Arc::new(Mutex::new(State { busy: false, since: Instant::now() }));
        self.open.push(Open { close, state: state.clone() });
        let silence = Box::pin(sleep(SILENCE));
        (Connection { stream, silence, closed, state, begun: None, seen: 0 }, address)
    }

    fn local_addr(&self) -> Result<Self::Addr> {
        self.listener.local_addr()
    }
}

/// A connection within these bounds.
pub struct Connection<S> {
    stream: S,
    silence: Pin<Box<Sleep>>,
    /// Told when somebody else needs the room.
    closed: oneshot::Receiver<()>,
    state: Arc<Mutex<State>>,
    /// When the first byte of a request came that is not whole.
    begun: Option<Instant>,
    /// Bytes of the end of a head that were the last to come.
    seen: usize,
}

impl<S> Connection<S> {
    /// What came of an attempt, unless the connection was silent for too long or has to go.
    fn bound<T>(&mut self, cx: &mut Context<'_>, attempt: Poll<Result<T>>) -> Poll<Result<T>> {
        if Pin::new(&mut self.closed).poll(cx).is_ready() {
            return Poll::Ready(Err(ErrorKind::ConnectionAborted.into()));
        }
        if attempt.is_ready() {
            let now = Instant::now();
            lock(&self.state).since = now;
            let until = self.begun.map_or(now + SILENCE, |begun| (now + SILENCE).min(begun + HEAD));
            self.silence.as_mut().reset(until);
            return attempt;
        }
        self.silence.as_mut().poll(cx).map(|()| Err(ErrorKind::TimedOut.into()))
    }

    /// Takes note of bytes that came.
    fn came(&mut self, bytes: &[u8]) {
        if lock(&self.state).busy || bytes.is_empty() {
            return;
        }
        self.begun.get_or_insert_with(Instant::now);
        for byte in bytes {
            self.seen = match END_OF_HEAD.get(self.seen) {
                Some(next) if next == byte => self.seen + 1,
                _ => usize::from(*byte == b'\r'),
            };
            if self.seen == END_OF_HEAD.len() {
                (self.begun, self.seen) = (None, 0);
                lock(&self.state).busy = true;
                return;
            }
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Connection<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<Result<()>> {
        let before = buffer.filled().len();
        let attempt = Pin::new(&mut self.stream).poll_read(cx, buffer);
        let came = buffer.filled().get(before..).unwrap_or_default();
        self.came(came);
        self.bound(cx, attempt)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Connection<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<Result<usize>> {
        let attempt = Pin::new(&mut self.stream).poll_write(cx, bytes);
        if attempt.is_ready() {
            lock(&self.state).busy = false;
        }
        self.bound(cx, attempt)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        let attempt = Pin::new(&mut self.stream).poll_flush(cx);
        self.bound(cx, attempt)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        let attempt = Pin::new(&mut self.stream).poll_shutdown(cx);
        self.bound(cx, attempt)
    }
}
