//! Bounds on connections: how many at once, and how long one may stay silent.

use axum::serve::Listener;
use std::future::Future;
use std::io::{ErrorKind, Result};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, Sleep, sleep};

/// Connections at once; further ones wait.
const CONNECTIONS: usize = 64;
/// A connection on which nothing moves for so long is closed.
const SILENCE: Duration = Duration::from_secs(30);

/// A listener within these bounds.
pub struct Bounded<L> {
    listener: L,
    room: Arc<Semaphore>,
}

impl<L> Bounded<L> {
    /// Bounds a listener.
    pub fn new(listener: L) -> Bounded<L> {
        Bounded { listener, room: Arc::new(Semaphore::new(CONNECTIONS)) }
    }
}

impl<L: Listener> Listener for Bounded<L> {
    type Io = Connection<L::Io>;
    type Addr = L::Addr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        // The semaphore is never closed, so there is always a permit in the end.
        let permit = self.room.clone().acquire_owned().await.ok();
        let (stream, address) = self.listener.accept().await;
        (Connection { stream, silence: Box::pin(sleep(SILENCE)), _permit: permit }, address)
    }

    fn local_addr(&self) -> Result<Self::Addr> {
        self.listener.local_addr()
    }
}

/// A connection within these bounds.
pub struct Connection<S> {
    stream: S,
    silence: Pin<Box<Sleep>>,
    _permit: Option<OwnedSemaphorePermit>,
}

impl<S> Connection<S> {
    /// What came of an attempt, unless the connection was silent for too long.
    fn bound<T>(&mut self, cx: &mut Context<'_>, attempt: Poll<Result<T>>) -> Poll<Result<T>> {
        if attempt.is_ready() {
            self.silence.as_mut().reset(Instant::now() + SILENCE);
            return attempt;
        }
        self.silence.as_mut().poll(cx).map(|()| Err(ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Connection<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<Result<()>> {
        let attempt = Pin::new(&mut self.stream).poll_read(cx, buffer);
        self.bound(cx, attempt)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Connection<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<Result<usize>> {
        let attempt = Pin::new(&mut self.stream).poll_write(cx, bytes);
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
