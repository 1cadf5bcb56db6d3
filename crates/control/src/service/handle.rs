//! The thread as others see it.

use crate::kernel::{self, Model};
use crate::publish;
use nix::sys::eventfd::EventFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// What there is to see from outside.
#[derive(Clone, Debug, Default, serde::Serialize, serde::Deserialize)]
#[serde(default)]
pub struct Status {
    /// Everything that the kernel has was read, and FRR has sent its first lot.
    pub synced: bool,
    /// Everything that the kernel has was read.
    pub kernel: bool,
    /// Everything read was published.
    pub published: bool,
    /// Netlink.
    pub netlink: kernel::Counts,
    /// Messages of FRR on the current connection; absent if there is none.
    pub fpm_messages: Option<u64>,
    /// Tables.
    pub publish: publish::Counts,
    /// Something from before the start is still in the tables because FRR has not sent its first lot.
    pub holding: bool,
    /// How often the thread has looked around: once a second at least, unless it hangs.
    pub rounds: u64,
}

/// What the thread shares with others.
#[derive(Default)]
pub(super) struct Shared {
    pub models: Mutex<Models>,
    pub status: Mutex<Status>,
    /// Ports that have got a twin or lost it, and the number of its interface, 0 for none.
    pub ports: Mutex<Vec<(usize, u32)>>,
    pub stop: AtomicBool,
}

#[derive(Default)]
pub(super) struct Models {
    pub kernel: Model,
    pub frr: Option<Model>,
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The running thread; dropping it ends the thread.
pub struct Handle {
    shared: Arc<Shared>,
    wake: Arc<EventFd>,
    thread: Option<JoinHandle<()>>,
}

impl Handle {
    pub(super) fn new(shared: Arc<Shared>, wake: Arc<EventFd>, thread: JoinHandle<()>) -> Handle {
        Handle { shared, wake, thread: Some(thread) }
    }

    /// What the thread has done.
    pub fn status(&self) -> Status {
        lock(&self.shared.status).clone()
    }

    /// Looks at the kernel's model, and at FRR's routes if they come from there. The thread waits meanwhile.
    pub fn look<R>(&self, look: impl FnOnce(&Model, Option<&Model>) -> R) -> R {
        let models = lock(&self.shared.models);
        look(&models.kernel, models.frr.as_ref())
    }

    /// From now on the interface of this number is the twin of a port; `None`: the port is gone. Without VLANs the port may be a
    /// new one.
    pub fn set_port(&self, port: usize, twin: Option<u32>) {
        lock(&self.shared.ports).push((port, twin.unwrap_or(0)));
        // The counter cannot overflow by this.
        let _ = self.wake.write(1);
    }

    /// Waits until everything that was there is published; false if that takes longer than `limit`.
    pub fn wait(&self, limit: Duration) -> bool {
        self.wait_until(limit, |status| status.synced && status.published)
    }

    /// Waits until everything that the kernel has is published, whether FRR has sent its first lot or not; false if that
    /// takes longer than `limit`.
    pub fn wait_for_kernel(&self, limit: Duration) -> bool {
        self.wait_until(limit, |status| status.kernel && status.published)
    }

    fn wait_until(&self, limit: Duration, is_done: impl Fn(&Status) -> bool) -> bool {
        let deadline = Instant::now() + limit;
        loop {
            if is_done(&self.status()) {
                return true;
            }
            if Instant::now() >= deadline {
                return false;
            }
            thread::sleep(Duration::from_millis(2));
        }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
        let _ = self.wake.write(1);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_waits_is_told_whether_it_has_come_about() {
        let (shared, wake) = (Arc::<Shared>::default(), Arc::new(EventFd::new().unwrap()));
        let handle = Handle::new(shared.clone(), wake, thread::spawn(|| ()));
        let waited = || (handle.wait(Duration::ZERO), handle.wait_for_kernel(Duration::ZERO));
        assert_eq!(waited(), (false, false));
        *lock(&shared.status) = Status { kernel: true, published: true, ..Status::default() };
        assert_eq!(waited(), (false, true));
        lock(&shared.status).synced = true;
        assert_eq!(waited(), (true, true));
        lock(&shared.status).published = false;
        assert_eq!(waited(), (false, false));
    }

    #[test]
    fn the_thread_is_woken_for_a_port_and_for_the_end() {
        let (shared, wake) = (Arc::<Shared>::default(), Arc::new(EventFd::new().unwrap()));
        let handle = Handle::new(shared.clone(), wake.clone(), thread::spawn(|| ()));
        handle.set_port(3, Some(7));
        handle.set_port(4, None);
        assert_eq!((wake.read().unwrap(), lock(&shared.ports).clone()), (2, vec![(3, 7), (4, 0)]));
        drop(handle);
        assert_eq!((wake.read().unwrap(), shared.stop.load(Ordering::Acquire)), (1, true));
    }
}
