//! Lines for people, on standard error, without anybody waiting for whoever reads them.
//!
//! A terminal that is stopped (Ctrl-S) or a pipe whose reader stands still takes nothing, for hours perhaps. So lines go
//! to a bounded queue that a thread of its own writes out; what finds it full is dropped and counted.

use std::collections::VecDeque;
use std::fmt::Arguments;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Bytes that wait at most.
const ROOM: usize = 1 << 20;
/// How long a program that ends waits for its last lines to be taken.
const FAREWELL: Duration = Duration::from_millis(500);
/// How long [`tell_patiently`] waits for room while the reader takes something now and then.
const PATIENCE: Duration = Duration::from_secs(1);

/// Writes a line to standard error as `eprintln!` does, but goes on if nobody can read it, and does not wait: a router must
/// not end, or stand still, because whoever read its messages did.
#[macro_export]
macro_rules! say {
    ($($arg:tt)*) => {
        $crate::tell(::std::format_args!("{}\n", ::std::format_args!($($arg)*)))
    };
}

/// Writes a text to standard error, in one piece and in the order of the calls, without waiting for it.
pub fn tell(text: Arguments<'_>) {
    Output::standard_error().put(text.to_string(), Duration::ZERO);
}

/// The same for output that may come faster than its reader reads: waits for room as long as the reader goes on reading.
pub fn tell_patiently(text: &str) {
    Output::standard_error().put(text.to_owned(), PATIENCE);
}

/// Waits for a moment until everything told so far is written.
pub fn settle() {
    if let Some(output) = STANDARD_ERROR.get() {
        output.settle(FAREWELL);
    }
}

/// Has what a panic says told like any other line: whoever unwinds must not wait for a reader either. Starts the thread
/// that writes, wherever the calling thread is bound to.
pub fn tell_panics() {
    Output::standard_error();
    std::panic::set_hook(Box::new(|panic| {
        let current = thread::current();
        let name = current.name().unwrap_or("<unnamed>");
        let trace = std::backtrace::Backtrace::capture();
        let trace = match trace.status() {
            std::backtrace::BacktraceStatus::Captured => format!("{trace}"),
            _ => String::new(),
        };
        tell(format_args!("\nthread '{name}' {panic}\n{trace}"));
    }));
}

static STANDARD_ERROR: OnceLock<Output> = OnceLock::new();

/// A queue of texts before a file.
struct Output {
    queue: Mutex<Queue>,
    /// Something was put in, or written.
    moved: Condvar,
}

#[derive(Default)]
struct Queue {
    texts: VecDeque<String>,
    bytes: usize,
    /// Texts that found no room since the last one that did.
    dropped: u64,
    /// The thread has taken something that it is writing.
    writing: bool,
    /// There is nobody to write, so that whoever tells writes.
    alone: bool,
    /// Somebody waited in vain: nobody waits again until something was written.
    stuck: bool,
}

impl Output {
    fn standard_error() -> &'static Output {
        let mut begun = false;
        let output = STANDARD_ERROR.get_or_init(|| {
            begun = true;
            Output { queue: Mutex::default(), moved: Condvar::new() }
        });
        if begun {
            // A descriptor of its own: the standard one is diverted while devices are opened.
            let file = io::stderr().as_fd().try_clone_to_owned().map(File::from);
            let thread = file.and_then(|file| {
                thread::Builder::new().name("messages".to_owned()).spawn(move || output.write_out(file))
            });
            output.queue().alone = thread.is_err();
        }
        output
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts a text in, if there is room within so long; one that is longer than all room goes in alone.
    fn put(&self, text: String, patience: Duration) {
        let mut queue = self.queue();
        if queue.alone {
            drop(queue);
            // That it cannot be written is nobody's concern.
            let _ = io::stderr().write_all(text.as_bytes());
            return;
        }
        let until = Instant::now() + patience;
        while queue.bytes > 0 && queue.bytes + text.len() > ROOM {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() || queue.stuck {
                queue.stuck |= !patience.is_zero();
                queue.dropped += 1;
                return;
            }
            queue = self.moved.wait_timeout(queue, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        if queue.dropped > 0 {
            let lost =
                format!("warning: {} messages were dropped: standard error took none\n", queue.dropped);
            queue.bytes += lost.len();
            queue.texts.push_back(lost);
            queue.dropped = 0;
        }
        queue.bytes += text.len();
        queue.texts.push_back(text);
        self.moved.notify_all();
    }

    /// Writes what is put in, for ever.
    fn write_out(&self, mut file: impl Write) {
        loop {
            let mut queue = self.queue();
            let text = loop {
                match queue.texts.pop_front() {
                    Some(text) => break text,
                    None => queue = self.moved.wait(queue).unwrap_or_else(PoisonError::into_inner),
                }
            };
            queue.writing = true;
            drop(queue);
            let _ = file.write_all(text.as_bytes());
            let mut queue = self.queue();
            queue.bytes -= text.len();
            (queue.writing, queue.stuck) = (false, false);
            self.moved.notify_all();
        }
    }

    fn settle(&self, limit: Duration) {
        let until = Instant::now() + limit;
        let mut queue = self.queue();
        while !queue.alone && (queue.writing || !queue.texts.is_empty()) {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            queue = self.moved.wait_timeout(queue, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader};

    /// An output into a pipe, and the pipe's other end.
    fn piped() -> (&'static Output, io::PipeReader) {
        let (reader, writer) = io::pipe().unwrap();
        let output: &'static Output =
            Box::leak(Box::new(Output { queue: Mutex::default(), moved: Condvar::new() }));
        thread::spawn(move || output.write_out(writer));
        (output, reader)
    }

    #[test]
    fn lines_come_in_order() {
        let (output, reader) = piped();
        for i in 0..1000 {
            output.put(format!("{i}\n"), Duration::ZERO);
        }
        let lines =
            BufReader::new(reader).lines().take(1000).map(|line| line.unwrap().parse::<u32>().unwrap());
        assert!(lines.eq(0..1000));
    }

    #[test]
    fn nobody_waits_for_a_reader_that_stands_still_and_what_was_dropped_is_told() {
        let (output, reader) = piped();
        let line = format!("{}\n", "x".repeat(999));
        let begun = Instant::now();
        for count in [200, 4_800] {
            for _ in 0..count {
                output.put(line.clone(), Duration::ZERO);
            }
            // The pipe takes the first of them.
            output.settle(Duration::from_millis(50));
        }
        assert!(begun.elapsed() < Duration::from_secs(5));
        let dropped = output.queue().dropped;
        assert!(dropped > 3_000, "{dropped}");
        // One that is patient waits once.
        let begun = Instant::now();
        for _ in 0..10 {
            output.put(line.clone(), Duration::from_millis(100));
        }
        let waited = begun.elapsed().as_millis();
        assert!((100..900).contains(&waited), "{waited} ms");
        let mut lines = BufReader::new(reader).lines().map(Result::unwrap);
        let taken = usize::try_from(5_000 - dropped).unwrap();
        assert_eq!(lines.by_ref().take(taken).filter(|line| line.len() == 999).count(), taken);
        output.settle(Duration::from_secs(1));
        output.put("last\n".to_owned(), Duration::ZERO);
        let told = format!("warning: {} messages were dropped: standard error took none", dropped + 10);
        assert_eq!([lines.next(), lines.next()], [Some(told), Some("last".to_owned())]);
    }

    #[test]
    fn a_reader_that_is_slow_gets_everything_that_was_told_patiently() {
        let (output, reader) = piped();
        let line = format!("{}\n", "x".repeat(999));
        let read = thread::spawn(move || BufReader::new(reader).lines().take(3_000).count());
        for _ in 0..3_000 {
            output.put(line.clone(), Duration::from_secs(10));
        }
        assert_eq!((read.join().unwrap(), output.queue().dropped), (3_000, 0));
    }
}
