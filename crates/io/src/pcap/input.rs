//! The bytes of a capture, and numbers in either byte order.

use super::{BUFFER, PcapError};
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};

/// A file that is read from its beginning to its end.
pub struct Input {
    path: PathBuf,
    source: BufReader<Box<dyn Read + Send>>,
    /// Bytes read so far.
    at: u64,
}

impl Input {
    /// Opens a file; `-` is the standard input.
    pub fn open(path: &Path) -> Result<Input, PcapError> {
        let source: Box<dyn Read + Send> = match path.to_str() {
            Some("-") => Box::new(io::stdin()),
            _ => match File::open(path) {
                Ok(file) => Box::new(file),
                Err(error) => return Err(PcapError::Io { path: path.to_owned(), error }),
            },
        };
        Ok(Input { path: path.to_owned(), source: BufReader::with_capacity(BUFFER, source), at: 0 })
    }

    /// How many bytes were read.
    pub fn at(&self) -> u64 {
        self.at
    }

    /// An error of the file's contents.
    pub fn format(&self, what: impl Into<String>) -> PcapError {
        PcapError::Format { path: self.path.clone(), what: what.into() }
    }

    fn io(&self, error: io::Error) -> PcapError {
        PcapError::Io { path: self.path.clone(), error }
    }

    /// Reads as many bytes as there is room for; false if the file ends here. `part` is what they belong to.
    ///
    /// # Errors
    /// If the file cannot be read, or ends in the middle of them.
    pub fn fill(&mut self, bytes: &mut [u8], part: &str) -> Result<bool, PcapError> {
        let mut done = 0;
        while let Some(rest) = bytes.get_mut(done..).filter(|rest| !rest.is_empty()) {
            match self.source.read(rest) {
                Ok(0) if done == 0 => return Ok(false),
                Ok(0) => return Err(self.cut(part)),
                Ok(n) => {
                    done += n;
                    self.at += n as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.io(error)),
            }
        }
        Ok(true)
    }

    /// `N` bytes that must be there.
    pub fn array<const N: usize>(&mut self, part: &str) -> Result<[u8; N], PcapError> {
        let mut bytes = [0; N];
        self.exact(&mut bytes, part)?;
        Ok(bytes)
    }

    /// As many bytes as there is room for, which must be there.
    pub fn exact(&mut self, bytes: &mut [u8], part: &str) -> Result<(), PcapError> {
        match self.fill(bytes, part)? {
            true => Ok(()),
            false => Err(self.cut(part)),
        }
    }

    /// `n` bytes that must be there. Memory is taken as they come, so that a wrong length takes none.
    pub fn take(&mut self, n: u32, part: &str) -> Result<Vec<u8>, PcapError> {
        let room = usize::try_from(n).unwrap_or(BUFFER).min(BUFFER);
        let mut bytes = Vec::with_capacity(room);
        let read = self.source.by_ref().take(u64::from(n)).read_to_end(&mut bytes);
        let read = read.map_err(|error| self.io(error))? as u64;
        self.at += read;
        if read < u64::from(n) { Err(self.cut(part)) } else { Ok(bytes) }
    }

    /// Leaves out `n` bytes that must be there.
    pub fn skip(&mut self, n: u32, part: &str) -> Result<(), PcapError> {
        let read = io::copy(&mut self.source.by_ref().take(u64::from(n)), &mut io::sink());
        let read = read.map_err(|error| self.io(error))?;
        self.at += read;
        if read < u64::from(n) { Err(self.cut(part)) } else { Ok(()) }
    }

    fn cut(&self, part: &str) -> PcapError {
        self.format(format!("the file ends in the middle of {part}"))
    }
}

/// The byte order of numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    Big,
    Little,
}

impl Order {
    /// The order in which these bytes are that number.
    pub fn of(bytes: [u8; 4], number: u32) -> Option<Order> {
        [Order::Big, Order::Little].into_iter().find(|order| order.u32(bytes) == number)
    }

    pub fn u16(self, bytes: [u8; 2]) -> u16 {
        match self {
            Order::Big => u16::from_be_bytes(bytes),
            Order::Little => u16::from_le_bytes(bytes),
        }
    }

    pub fn u32(self, bytes: [u8; 4]) -> u32 {
        match self {
            Order::Big => u32::from_be_bytes(bytes),
            Order::Little => u32::from_le_bytes(bytes),
        }
    }

    pub fn i64(self, bytes: [u8; 8]) -> i64 {
        match self {
            Order::Big => i64::from_be_bytes(bytes),
            Order::Little => i64::from_le_bytes(bytes),
        }
    }

    /// The number at this place of a header; 0 if the header is shorter.
    pub fn u16_at(self, header: &[u8], at: usize) -> u16 {
        header.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |bytes| self.u16(*bytes))
    }

    /// The number at this place of a header; 0 if the header is shorter.
    pub fn u32_at(self, header: &[u8], at: usize) -> u32 {
        header.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |bytes| self.u32(*bytes))
    }
}
