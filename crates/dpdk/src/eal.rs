//! The environment abstraction layer: one per process, from the first device to the last owner of its memory.
#![allow(unsafe_code)]

use crate::args::{Surroundings, merge};
use crate::facts::huge_pages;
use crate::log::{self, Listener};
use crate::raw;
use crate::runtime_dir::{self, RuntimeDir};
use io::OpenError;
use std::cell::Cell;
use std::ffi::{CStr, CString};
use std::marker::PhantomData;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// How to start DPDK.
#[derive(Clone, Debug, Default)]
pub struct EalOptions {
    /// EAL arguments of the user, without a program name; they win over our defaults.
    pub args: Vec<String>,
}

/// The running EAL. Held by whatever uses its memory; the last one to let go shuts it down.
pub(crate) struct Eal {
    /// Files that other programs find this instance by, if they are ours to remove.
    runtime_dir: Option<RuntimeDir>,
    /// EAL must not shut down: buffers are missing, so somebody may still use memory; or it never started.
    keep_memory: AtomicBool,
    /// The user wants to see DPDK's log.
    echo: bool,
}

static RUNNING: Mutex<Option<Weak<Eal>>> = Mutex::new(None);

impl Eal {
    /// Starts EAL with room for `memory` bytes of buffers.
    ///
    /// # Errors
    /// If it was started before in this process, or refuses.
    pub(crate) fn init(options: &EalOptions, memory: u64) -> Result<Arc<Eal>, OpenError> {
        let prefix = runtime_dir::own_prefix();
        let mut running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
        if running.is_some() {
            return Err(OpenError::new(
                "DPDK was already started in this process",
                "one process holds one DPDK instance for its whole life: use the same devices",
            ));
        }
        let merged = merge(
            &options.args,
            &Surroundings {
                prefix: &prefix,
                cpus: &allowed_cpus(),
                memory,
                huge: &huge_pages(),
                pci: Path::new("/sys/bus/pci/devices").is_dir(),
            },
        );
        let argv = c_args(&merged.args)?;
        *running = Some(Weak::new());
        log::open(merged.echo);
        let base = runtime_dir::base();
        // Only a directory that nobody else can be using is ours to remove.
        let runtime_dir = merged.own_prefix.then(|| RuntimeDir::claim(&base));
        runtime_dir::sweep(&base);
        let listener = Listener::start(merged.echo);
        let (code, errno) = start(argv);
        let words = listener.words();
        let eal = Eal { runtime_dir, keep_memory: AtomicBool::new(code < 0), echo: merged.echo };
        if code < 0 {
            // Dropping it removes its files; there is nothing to shut down.
            drop(eal);
            return Err(refusal(errno, &words, &merged.args));
        }
        let eal = Arc::new(eal);
        *running = Some(Arc::downgrade(&eal));
        Ok(eal)
    }

    /// Gathers what DPDK says from now on.
    pub(crate) fn listen(&self) -> Listener {
        Listener::start(self.echo)
    }

    /// Buffers are missing: memory must outlive us.
    pub(crate) fn keep_memory(&self) {
        self.keep_memory.store(true, Ordering::Relaxed);
    }

    /// Takes the files away by which other programs find this instance.
    pub(crate) fn remove_files(&self) {
        if let Some(dir) = &self.runtime_dir {
            dir.remove();
        }
    }
}

impl Drop for Eal {
    fn drop(&mut self) {
        if !self.keep_memory.load(Ordering::Relaxed) {
            let _listener = self.listen();
            // SAFETY: nobody holds the EAL any more, so no port, queue, pool handle or registered worker is left, and
            // no buffer is missing: nothing can reach the memory that this unmaps.
            unsafe { raw::rte_eal_cleanup() };
        }
    }
}

/// Calls `rte_eal_init` on a thread of its own, because the calling thread becomes EAL's main lcore: its affinity
/// changes and it can no longer register as a worker. Returns the result and `rte_errno`.
fn start(argv: Vec<CString>) -> (i32, i32) {
    let thread = std::thread::Builder::new().name("eal-main".to_owned()).spawn(move || {
        // EAL keeps pointers to the strings and reorders the array: both live for ever.
        let mut pointers: Vec<*mut libc::c_char> = argv.into_iter().map(CString::into_raw).collect();
        let count = i32::try_from(pointers.len()).unwrap_or(0);
        pointers.push(std::ptr::null_mut());
        let pointers = Vec::leak(pointers).as_mut_ptr();
        // SAFETY: a NULL-terminated array of `count` NUL-terminated, writable, never freed strings.
        let code = unsafe { raw::rte_eal_init(count, pointers) };
        // SAFETY: reads a thread-local number.
        (code, unsafe { raw::rb_errno() })
    });
    thread.ok().and_then(|t| t.join().ok()).unwrap_or((-1, libc::EAGAIN))
}

fn c_args(args: &[String]) -> Result<Vec<CString>, OpenError> {
    let all = std::iter::once("routebricks").chain(args.iter().map(String::as_str));
    all.map(|a| CString::new(a).map_err(|_| OpenError::new("an EAL argument contains a NUL character", "")))
        .collect()
}

/// The processors that this thread may run on.
fn allowed_cpus() -> Vec<usize> {
    // SAFETY: all-zero is a valid cpu_set_t.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the set is valid for writes of its size.
    if unsafe { libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &raw mut set) } != 0 {
        return Vec::new();
    }
    let most = usize::try_from(libc::CPU_SETSIZE).unwrap_or(0);
    // SAFETY: the number is below CPU_SETSIZE.
    (0..most).filter(|&cpu| unsafe { libc::CPU_ISSET(cpu, &set) }).collect()
}

/// Why EAL did not start, in its words, and what to do.
fn refusal(errno: i32, words: &str, args: &[String]) -> OpenError {
    let said = if words.is_empty() { error_text(errno) } else { words.to_owned() };
    let given = args.join(" ");
    let help = match errno {
        libc::EACCES | libc::EPERM => {
            "run as root, or with --no-huge after -- on the command line".to_owned()
        }
        libc::ENOMEM => "there are too few free huge pages: set more aside \
            (sysctl vm.nr_hugepages=N), or give --no-huge after -- on the command line"
            .to_owned(),
        _ => format!("EAL was given: {given}"),
    };
    OpenError::new(format!("DPDK does not start: {said}"), help)
}

/// The system's text for an error number, which DPDK returns negated or not.
pub(crate) fn error_text(errno: i32) -> String {
    // SAFETY: rte_strerror takes any number and returns a NUL-terminated string that lives until this thread's next
    // call.
    let text = unsafe { raw::rte_strerror(errno.abs()) };
    // SAFETY: as above.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

thread_local! {
    static REGISTERED: Cell<bool> = const { Cell::new(false) };
}

/// While it lives, the thread that made it has a buffer cache of its own. Belongs to that thread.
pub struct WorkerRegistration {
    eal: Option<Arc<Eal>>,
    // Unregistering concerns the calling thread, so this must not move to another.
    _thread: PhantomData<*const ()>,
}

/// Makes the calling thread known to DPDK until the result is dropped, so that taking and giving back buffers hits a
/// cache of its own instead of the shared pool. Neither pins nor schedules it. Does nothing if DPDK is not running or
/// has no room for another thread: then buffers cost more, and all else works.
pub fn register_worker() -> WorkerRegistration {
    let running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
    let eal = running.as_ref().and_then(Weak::upgrade).filter(|_| !REGISTERED.get()).filter(|_| {
        // SAFETY: EAL runs, and this thread is neither an lcore of EAL nor registered.
        unsafe { raw::rte_thread_register() == 0 }
    });
    if eal.is_some() {
        REGISTERED.set(true);
    }
    WorkerRegistration { eal, _thread: PhantomData }
}

impl WorkerRegistration {
    /// True if the thread has a cache of its own.
    pub fn has_cache(&self) -> bool {
        self.eal.is_some()
    }
}

impl Drop for WorkerRegistration {
    fn drop(&mut self) {
        if self.eal.is_some() {
            REGISTERED.set(false);
            // SAFETY: this thread was registered by this value, and EAL still runs because we hold it.
            unsafe { raw::rte_thread_unregister() };
        }
    }
}
