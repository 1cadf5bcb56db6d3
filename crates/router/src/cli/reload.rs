//! SIGHUP: a running router takes from its settings file what can change while it runs.

use super::router::RouterArgs;
use super::settings::Settings;
use crate::linux::ControlSide;
use graph::Router;
use signal_hook::consts::SIGHUP;
use signal_hook::iterator::{Handle, Signals};
use std::io;
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

/// How long a control side that takes routes from elsewhere may take until it is in step.
const LIMIT: Duration = Duration::from_secs(10);

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
        control: &Arc<ControlSide>,
        args: &RouterArgs,
        running: &Settings,
    ) -> io::Result<Option<Reload>> {
        if !args.has_file() {
            return Ok(None);
        }
        let mut signals = Signals::new([SIGHUP])?;
        let handle = signals.handle();
        let (router, control, args) = (router.clone(), control.clone(), args.clone());
        let mut running = running.clone();
        let thread = Builder::new().name("reload".to_owned()).spawn(move || {
            for _ in signals.forever() {
                match reload(&router, &control, &args, &mut running) {
                    Ok(()) => eprintln!("routebricks: fpm and limits of punting are as the settings say now"),
                    Err(why) => eprintln!("error: {why}; everything stays as it is"),
                }
            }
        })?;
        Ok(Some(Reload { handle, thread: Some(thread) }))
    }
}

/// All or nothing.
fn reload(
    router: &Router,
    control: &ControlSide,
    args: &RouterArgs,
    running: &mut Settings,
) -> Result<(), String> {
    let new = args.settings().map_err(|_| "the settings cannot be used")?;
    let fixed = running.fixed_differences(&new);
    if !fixed.is_empty() {
        return Err(format!(
            "only fpm, if the control side is a process, and [punt] can change while the router runs, and the settings differ in {}",
            fixed.join(", ")
        ));
    }
    new.punt.apply(router, new.ports.len())?;
    if new.fpm != running.fpm
        && let Err(why) = control.set_fpm(new.fpm, LIMIT)
    {
        running.punt.apply(router, running.ports.len())?;
        return Err(why);
    }
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
