//! Threads between the kernel's news and the workers' tables go before others on their processors.

use rustix::process::{getpriority_process, setpriority_process};

/// That of FRR's daemons in Debian: beside a thread of ordinary priority it has three quarters of a processor that both want,
/// and it waits less for its turn.
const NICE: i32 = -5;

/// Lets the calling thread, and those that it starts, go before others, unless somebody has given it a priority already.
/// Where that is not allowed (it takes `CAP_SYS_NICE`) it goes on as it was: nothing depends on
/// it but how long a change takes on a busy machine.
pub fn raise() {
    if getpriority_process(None) == Ok(0) {
        let _ = setpriority_process(None, NICE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The priority of a thread that was given one first, and is raised then; `None` if it may not have that.
    fn raised_from(nice: i32) -> Option<i32> {
        let of_thread = move || {
            setpriority_process(None, nice).ok()?;
            raise();
            getpriority_process(None).ok()
        };
        std::thread::spawn(of_thread).join().ok().flatten()
    }

    #[test]
    fn only_ordinary_threads_go_before_others() {
        let may_raise = raised_from(NICE - 1).is_some();
        assert_eq!(raised_from(19), Some(19));
        if !may_raise {
            eprintln!("skipped: no thread may go before others here");
            return;
        }
        assert_eq!(raised_from(0), Some(NICE));
        assert_eq!(raised_from(NICE - 1), Some(NICE - 1));
    }
}
