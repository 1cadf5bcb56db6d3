//! Looking into a running router and changing it: handlers, tables and metrics over HTTP, on a Unix socket always and
//! on TCP if asked for.
//!
//! ```text
//!   connection ─► bounded (how many, how long silent) ─► routes ─┬► handlers  GET, PUT
//!                                                                ├► tables    JSON
//!                                                                └► metrics   Prometheus
//! ```

mod bounded;
pub mod client;
mod metrics;
mod routes;
pub mod socket;
mod tables;

use bounded::Bounded;
use graph::Router;
use io::Port;
use std::io::{Error, ErrorKind, Result};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use tokio::runtime;
use tokio::sync::oneshot;

/// What others may look at.
pub struct Subject {
    router: Arc<Router>,
    ports: Vec<Arc<dyn Port>>,
    control: Option<Arc<dyn Controlled>>,
}

impl Subject {
    fn controlled(router: Arc<Router>, control: Arc<dyn Controlled>) -> Subject {
        Subject { ports: router.devices().ports(), router, control: Some(control) }
    }
}

/// A control side that can be looked at.
pub trait Controlled: Send + Sync {
    /// What there is to see of it, as a row of a table.
    fn row(&self) -> serde_json::Value;

    /// Has it start again, while packets flow.
    ///
    /// # Errors
    /// Why that does not go.
    fn restart(&self) -> std::result::Result<(), String>;
}

/// Serves until it is dropped; then nothing of it holds the router any more, and the socket is gone.
#[derive(Debug)]
pub struct Server {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
    socket: Option<socket::Bound>,
    http: Option<SocketAddr>,
}

impl Server {
    /// Serves a router and its ports on the Unix socket of this process, and on `http` if it is given.
    ///
    /// # Errors
    /// If the address cannot be had. A Unix socket that cannot be made is no error: then `show` cannot find the router.
    pub fn start(router: Arc<Router>, ports: Vec<Arc<dyn Port>>, http: Option<SocketAddr>) -> Result<Server> {
        Server::start_in(socket::directory().as_deref(), router, ports, http)
    }

    /// As [`Server::start`], for a router with a control side, on the Unix socket alone.
    ///
    /// # Errors
    /// Those of the system.
    pub fn start_with(router: Arc<Router>, control: Arc<dyn Controlled>) -> Result<Server> {
        Server::serve(socket::directory().as_deref(), Subject::controlled(router, control), None)
    }

    /// Serves HTTP alone.
    ///
    /// # Errors
    /// If the address cannot be had.
    pub fn http_of(router: Arc<Router>, control: Arc<dyn Controlled>, address: SocketAddr) -> Result<Server> {
        Server::serve(None, Subject::controlled(router, control), Some(address))
    }

    /// As [`Server::start`], with the Unix socket in this directory.
    ///
    /// # Errors
    /// If the address cannot be had.
    pub fn start_in(
        directory: Option<&Path>,
        router: Arc<Router>,
        ports: Vec<Arc<dyn Port>>,
        http: Option<SocketAddr>,
    ) -> Result<Server> {
        Server::serve(directory, Subject { router, ports, control: None }, http)
    }

    fn serve(directory: Option<&Path>, subject: Subject, http: Option<SocketAddr>) -> Result<Server> {
        let tcp = http.map(listen).transpose()?;
        let http = tcp.as_ref().map(TcpListener::local_addr).transpose()?;
        let (unix, socket) = directory.and_then(socket::bind).unzip();
        let runtime = runtime::Builder::new_current_thread().enable_all().max_blocking_threads(2).build()?;
        let (stop, stopped) = oneshot::channel();
        let subject = Arc::new(subject);
        let serve = move || {
            runtime.block_on(async {
                // An error means that the system has no room for another descriptor; the router runs on without it.
                let _ = spawn(subject, tcp, unix);
                let _ = stopped.await;
            });
            // Ends all connections, and waits for handlers that are being called.
            drop(runtime);
        };
        let thread = thread::Builder::new().name("api".to_owned()).spawn(serve)?;
        Ok(Server { stop: Some(stop), thread: Some(thread), socket, http })
    }

    /// Where it serves HTTP.
    pub fn http(&self) -> Option<SocketAddr> {
        self.http
    }

    /// Its Unix socket.
    #[cfg(test)]
    pub fn socket(&self) -> Option<&Path> {
        self.socket.as_ref().map(socket::Bound::path)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.socket.take();
        self.stop.take();
        if let Some(thread) = self.thread.take() {
            // A panic in it was printed where it happened.
            let _ = thread.join();
        }
    }
}

fn listen(address: SocketAddr) -> Result<TcpListener> {
    let explained = |e: Error| {
        let advice = match e.kind() {
            ErrorKind::AddrInUse => "; another program serves there: choose another port",
            ErrorKind::AddrNotAvailable => "; no interface has this address",
            ErrorKind::PermissionDenied => "; ports below 1024 need root",
            _ => "",
        };
        let reason = crate::config::reason(&e);
        Error::new(e.kind(), format!("cannot serve HTTP on {address}: {reason}{advice}"))
    };
    TcpListener::bind(address).map_err(explained)
}

/// Starts to serve; ends with the runtime.
fn spawn(subject: Arc<Subject>, tcp: Option<TcpListener>, unix: Option<UnixListener>) -> Result<()> {
    let routes = routes::routes(subject);
    if let Some(unix) = unix {
        unix.set_nonblocking(true)?;
        let listener = Bounded::new(tokio::net::UnixListener::from_std(unix)?);
        tokio::spawn(axum::serve(listener, routes.clone()).into_future());
    }
    if let Some(tcp) = tcp {
        let routes = if tcp.local_addr()?.ip().is_loopback() { routes::local_only(routes) } else { routes };
        tcp.set_nonblocking(true)?;
        let listener = Bounded::new(tokio::net::TcpListener::from_std(tcp)?);
        tokio::spawn(axum::serve(listener, routes).into_future());
    }
    Ok(())
}

#[cfg(test)]
mod tests;
