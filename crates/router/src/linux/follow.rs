//! Looks at the twins now and then, so that the ports are given back as the twins were last, whatever ends the router.

use super::interface_state;
use super::{Namespaces, Port};
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

/// How often it looks.
const PAUSE: Duration = Duration::from_secs(5);
/// How often it looks at routes; where there are so many that this takes long, at most one part in so many of the time.
const ROUTES: Duration = Duration::from_secs(60);
const SHARE: u32 = 200;

/// Follows the twins until it is dropped, when it looks once more.
#[derive(Debug)]
pub struct Follow {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Follow {
    /// Starts it. The calling thread is in the namespace of the twins.
    ///
    /// # Errors
    /// Those of the system.
    pub fn start(namespaces: Arc<Namespaces>, mut ports: Vec<Port>) -> io::Result<Follow> {
        let (stop, stopped) = channel();
        let thread = Builder::new().name("twins".to_owned()).spawn(move || {
            let mut due = Instant::now() + ROUTES;
            loop {
                let ends = stopped.recv_timeout(PAUSE) != Err(RecvTimeoutError::Timeout);
                let before = ports.clone();
                let begun = Instant::now();
                let with_routes = ends || begun >= due;
                interface_state::look(&mut ports, with_routes);
                if with_routes {
                    due = begun + ROUTES.max(begun.elapsed().saturating_mul(SHARE));
                }
                if ports != before {
                    namespaces.record(&ports);
                }
                if ends {
                    return;
                }
            }
        })?;
        Ok(Follow { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Follow {
    fn drop(&mut self) {
        self.stop.take();
        if let Some(thread) = self.thread.take() {
            // A panic in it was printed where it happened.
            let _ = thread.join();
        }
    }
}
