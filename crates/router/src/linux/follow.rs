//! Looks at the twins now and then, so that the ports are given back as the twins were last, whatever ends the router.

use super::interface_state;
use super::{Namespaces, Port};
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

/// How often it looks; at routes, of which there may be many, once in so many times.
const PAUSE: Duration = Duration::from_secs(5);
const ROUTES: u32 = 12;

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
            let mut round = 0;
            loop {
                let ends = stopped.recv_timeout(PAUSE) != Err(RecvTimeoutError::Timeout);
                let before = ports.clone();
                round += 1;
                interface_state::look(&mut ports, ends || round % ROUTES == 0);
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
