//! Where prints write their lines: the standard error output, the standard output, or a file.

use graph::{ConfigErrors, Span};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// An output for lines, opened when the router starts.
pub(super) struct Lines {
    out_file: Option<(PathBuf, Span)>,
    to: Mutex<Destination>,
}

/// Where lines go, and what went wrong there first.
struct Destination {
    writer: Box<dyn Write + Send>,
    error: Option<io::Error>,
}

/// The standard error output, for whose reader no worker waits for ever.
struct Messages;

impl Write for Messages {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        ::io::tell_patiently(&String::from_utf8_lossy(bytes));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Lines {
    /// To this file, `-` for the standard output, and where the configuration says so; else to the standard error output.
    pub fn new(out_file: Option<(PathBuf, Span)>) -> Lines {
        Lines { out_file, to: Mutex::new(Destination { writer: Box::new(Messages), error: None }) }
    }

    /// Opens the file.
    pub fn open(&self) -> Result<(), ConfigErrors> {
        let Some((path, span)) = &self.out_file else { return Ok(()) };
        self.destination().writer = if path.as_os_str() == "-" {
            Box::new(BufWriter::new(io::stdout()))
        } else {
            let file = File::create(path).map_err(|e| {
                ConfigErrors::new(*span, format!("OUTFILE: cannot write {}: {e}", path.display()))
            })?;
            Box::new(BufWriter::new(file))
        };
        Ok(())
    }

    /// Writes lines; the first error is kept for [`finish`](Self::finish).
    pub fn write(&self, text: &str) {
        let mut to = self.destination();
        if let Err(e) = to.writer.write_all(text.as_bytes()) {
            to.error.get_or_insert(e);
        }
    }

    /// Says whether all lines are in the file.
    pub fn finish(&self) -> Result<(), String> {
        let mut to = self.destination();
        let flushed = to.writer.flush();
        match to.error.take().or(flushed.err()) {
            Some(e) if self.out_file.is_some() => Err(format!("output is incomplete: {e}")),
            _ => Ok(()),
        }
    }

    fn destination(&self) -> MutexGuard<'_, Destination> {
        self.to.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
