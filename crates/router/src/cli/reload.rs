//! SIGHUP: a running router takes changed limits from its settings file, and nothing else.

use super::router::RouterArgs;
use super::settings::Settings;
use graph::Router;
use signal_hook::consts::SIGHUP;
use signal_hook::iterator::{Handle, Signals};
use std::io;
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};

/// Reloads on SIGHUP until it is dropped.
#[derive(Debug)]
pub struct Reload {
    handle: Handle,
    thread: Option<JoinHandle<()>>,
}

impl Reload {
    /// Starts to listen, if the settings come from a file; a router without one ends with its terminal.
    ///
    /// # Errors
    /// Those of the system.
    pub fn on_signal(
        router: &Arc<Router>,
        args: &RouterArgs,
        running: &Settings,
    ) -> io::Result<Option<Reload>> {
        if !args.has_file() {
            return Ok(None);
        }
        let mut signals = Signals::new([SIGHUP])?;
        let handle = signals.handle();
        let (router, args, mut running) = (router.clone(), args.clone(), running.clone());
        let thread = Builder::new().name("reload".to_owned()).spawn(move || {
            for _ in signals.forever() {
                match reload(&router, &args, &mut running) {
                    Ok(()) => eprintln!("routebricks: limits of punting are as the settings say now"),
                    Err(why) => eprintln!("error: {why}; everything stays as it is"),
                }
            }
        })?;
        Ok(Some(Reload { handle, thread: Some(thread) }))
    }
}

/// All or nothing.
fn reload(router: &Router, args: &RouterArgs, running: &mut Settings) -> Result<(), String> {
    let new = args.settings().map_err(|_| "the settings cannot be used")?;
    let fixed = running.fixed_differences(&new);
    if !fixed.is_empty() {
        return Err(format!(
            "only [punt] can change while the router runs, and the settings differ in {}",
            fixed.join(", ")
        ));
    }
    new.punt.apply(router, new.ports.len())?;
    *running = new;
    Ok(())
}

impl Drop for Reload {
    fn drop(&mut self) {
        self.handle.close();
        // It holds the router, whose ports cannot be closed before.
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
