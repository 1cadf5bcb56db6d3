//! SIGHUP: a running router takes from its settings file what can change while it runs.

use super::http::Http;
use super::router::RouterArgs;
use super::settings::Settings;
use crate::linux::{ControlSide, ReversePath};
use ::io::say;
use graph::Router;
use signal_hook::consts::SIGHUP;
use signal_hook::iterator::{Handle, Signals};
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
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
        http: &Arc<Mutex<Http>>,
        args: &RouterArgs,
        running: &Settings,
    ) -> io::Result<Option<Reload>> {
        if !args.has_file() {
            return Ok(None);
        }
        let mut signals = Signals::new([SIGHUP])?;
        let handle = signals.handle();
        let (router, control, http) = (router.clone(), control.clone(), http.clone());
        let mut reloaded = Reloaded { router, control, http, running: running.clone() };
        let args = args.clone();
        let thread = Builder::new().name("reload".to_owned()).spawn(move || {
            for _ in signals.forever() {
                match reloaded.reload(&args) {
                    Ok(()) => say!("routebricks: {CHANGEABLE} are as the settings say now"),
                    Err(why) => say!("error: {why}; everything stays as it is"),
                }
            }
        })?;
        Ok(Some(Reload { handle, thread: Some(thread) }))
    }
}

/// What can change.
const CHANGEABLE: &str = "fpm, rpf, http, structures and limits of punting";

/// A router whose settings change.
struct Reloaded {
    router: Arc<Router>,
    control: Arc<ControlSide>,
    http: Arc<Mutex<Http>>,
    running: Settings,
}

impl Reloaded {
    /// All or nothing.
    fn reload(&mut self, args: &RouterArgs) -> Result<(), String> {
        let mut new = args.settings().map_err(|_| "the settings cannot be used")?;
        let fixed = self.running.fixed_differences(&new);
        if !fixed.is_empty() {
            return Err(format!(
                "only http, rpf (of a router that was started with one, be it \"off\"), fpm (if the control side is a process), \
                 [lookup] and [punt] can change while the router runs, and the settings differ in {}",
                fixed.join(", ")
            ));
        }
        // What checks sources is there to stay, or never there.
        new.rpf = self.running.rpf.map(|_| new.rpf.unwrap_or(ReversePath::Off));
        self.change_to(&new).inspect_err(|_| {
            let running = self.running.clone();
            if let Err(why) = self.local(&running) {
                say!("error: {why}");
            }
        })?;
        self.running = new;
        Ok(())
    }

    /// That of the control side comes last: it need not be taken back.
    fn change_to(&self, new: &Settings) -> Result<(), String> {
        self.local(new)?;
        if new.fpm == self.running.fpm {
            return Ok(());
        }
        self.control.set_fpm(new.fpm, LIMIT)
    }

    /// All but that of the control side; what takes longest is last.
    fn local(&self, settings: &Settings) -> Result<(), String> {
        self.data_side(settings)?;
        self.serve_at(settings)?;
        settings.lookup.apply(&self.router)
    }

    fn data_side(&self, settings: &Settings) -> Result<(), String> {
        let ports = settings.ports.len();
        settings.punt.apply(&self.router, ports)?;
        settings.rpf.map_or(Ok(()), |mode| mode.apply(&self.router, ports))
    }

    fn serve_at(&self, settings: &Settings) -> Result<(), String> {
        let mut http = self.http.lock().unwrap_or_else(PoisonError::into_inner);
        http.serve_at(settings.http).map_err(|e| e.to_string())
    }
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
