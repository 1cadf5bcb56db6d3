//! Taking one end of a ring, and giving it back.
//!
//! The ring is a file. Who has an end has a lock on one byte of it, which the system takes away when the process ends, however it
//! ends: so each can tell whether the other is there, and an end that was killed can be taken again. A third byte is locked by
//! whoever comes or goes. The first to come makes the memory, the last to go removes the file.

use super::memory::{Geometry, Memory, Side};
use crate::devices::OpenError;
use nix::fcntl::{FcntlArg, fcntl};
use std::fmt::Display;
use std::fs::{self, File, OpenOptions};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// The byte that is locked by who comes or goes; the sides' are 0 and 1.
const DOOR: i64 = 2;
/// How often somebody asks whether the door is free, a millisecond apart.
const TRIES: u32 = 1000;

/// One end of a ring. Given back when dropped.
#[derive(Debug)]
pub struct Attachment {
    path: PathBuf,
    file: File,
    memory: Memory,
    side: Side,
    /// The state that the other end had when it was found to be gone without having said so; 0 = none.
    vanished: AtomicU32,
}

impl Attachment {
    /// Takes a free end of the ring of this name, with memory for `wish` if nobody is there.
    ///
    /// # Errors
    /// If both ends are taken, or the other one made the ring for shorter frames, or it cannot be made.
    pub fn take(path: &Path, wish: Geometry) -> Result<Attachment, OpenError> {
        for _ in 0..TRIES {
            let file = open(path)?;
            if lock(&file, DOOR).map_err(failed(path))? && is_in_place(&file, path) {
                return Attachment::come(path, file, wish);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Err(error(path, "another program keeps it locked", ""))
    }

    /// Takes an end while the door is ours.
    fn come(path: &Path, file: File, wish: Geometry) -> Result<Attachment, OpenError> {
        let taken = |side: Side| is_locked(&file, side as i64);
        let (side, memory) = match Side::BOTH.map(taken) {
            [Ok(true), Ok(true)] => {
                return Err(error(path, "both ends are taken", "a ring joins two devices, no more"));
            }
            [Err(e), _] | [_, Err(e)] => return Err(error(path, e, "")),
            [Ok(false), Ok(false)] => (Side::First, made(path, &file, wish)?),
            [Ok(first), _] => (if first { Side::Second } else { Side::First }, found(path, &file, wish)?),
        };
        if !lock(&file, side as i64).map_err(failed(path))? {
            return Err(error(path, "it was taken meanwhile", ""));
        }
        let state = memory.state(side);
        // Odd: somebody is there.
        state.store(state.load(Ordering::Relaxed).wrapping_add(1) | 1, Ordering::Release);
        unlock(&file, DOOR);
        Ok(Attachment { path: path.to_owned(), file, memory, side, vanished: AtomicU32::new(0) })
    }

    /// The memory.
    #[inline]
    pub fn memory(&self) -> &Memory {
        &self.memory
    }

    /// Which end it is.
    #[inline]
    pub fn side(&self) -> Side {
        self.side
    }

    /// A number that depends on the name alone.
    pub fn path_hash(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.path.hash(&mut hasher);
        hasher.finish()
    }

    /// Whether the other end has said that it is there, and was not found to be gone since.
    #[inline]
    pub fn has_peer(&self) -> bool {
        let state = self.memory.state(self.side.other()).load(Ordering::Relaxed);
        state & 1 == 1 && state != self.vanished.load(Ordering::Relaxed)
    }

    /// Asks the system whether the other end is there.
    pub fn look_for_peer(&self) -> bool {
        let state = self.memory.state(self.side.other()).load(Ordering::Relaxed);
        // If the system does not say, it is as it was.
        let is_there = is_locked(&self.file, self.side.other() as i64).unwrap_or(true);
        if !is_there && state & 1 == 1 {
            self.vanished.store(state, Ordering::Relaxed);
        }
        is_there
    }
}

impl Drop for Attachment {
    fn drop(&mut self) {
        let state = self.memory.state(self.side);
        let is_ours = (0..TRIES).any(|_| {
            let got = lock(&self.file, DOOR).unwrap_or(false);
            if !got {
                std::thread::sleep(Duration::from_millis(1));
            }
            got
        });
        state.store(state.load(Ordering::Relaxed).wrapping_add(1) & !1, Ordering::Release);
        let alone = matches!(is_locked(&self.file, self.side.other() as i64), Ok(false));
        if is_ours && alone && is_in_place(&self.file, &self.path) {
            // What stays is used again by who comes next.
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn error(path: &Path, what: impl Display, help: &str) -> OpenError {
    OpenError::new(format!("ring {}: {what}", path.display()), help)
}

fn failed(path: &Path) -> impl Fn(io::Error) -> OpenError {
    move |e| error(path, e, "")
}

/// The memory of a new ring, in a file that is empty, or was a ring to which nobody has an end any more.
fn made(path: &Path, file: &File, wish: Geometry) -> Result<Memory, OpenError> {
    if !Memory::may_be_made(file).map_err(failed(path))? {
        return Err(error(path, "the file is there and is no ring", "name another file"));
    }
    Memory::make(file, wish).map_err(|e| {
        // Nobody else can be at it: the door is ours.
        let _ = fs::remove_file(path);
        error(path, e, "")
    })
}

/// The memory that the other end has made, if it will do.
fn found(path: &Path, file: &File, wish: Geometry) -> Result<Memory, OpenError> {
    let Some(memory) = Memory::open(file).map_err(failed(path))? else {
        return Err(error(path, "the other end is of another version", "run the same version on both sides"));
    };
    let (has, wants) = (memory.geometry().longest(), wish.longest());
    if has != wants {
        let what = format!("the other end takes frames of up to {has} bytes, this one {wants}");
        return Err(error(path, what, "give both the same MTU"));
    }
    Ok(memory)
}

/// Opens the file, which may not be there yet. Others than us must not be able to write to it: they could cut it off.
fn open(path: &Path) -> Result<File, OpenError> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600).custom_flags(libc::O_NOFOLLOW);
    let help = "its directory must be there; one in memory, such as /run, is best";
    let file = options.open(path).map_err(|e| error(path, e, help))?;
    let metadata = file.metadata().map_err(failed(path))?;
    let refuse = |why: &str| Err(error(path, why, "name another file"));
    if !metadata.is_file() {
        return refuse("it is no regular file");
    }
    if metadata.uid() != nix::unistd::geteuid().as_raw() || metadata.mode() & 0o022 != 0 {
        return refuse("other users can write to it");
    }
    Ok(file)
}

/// Whether the name still means this file.
fn is_in_place(file: &File, path: &Path) -> bool {
    let (Ok(ours), Ok(there)) = (file.metadata(), fs::symlink_metadata(path)) else { return false };
    (ours.dev(), ours.ino()) == (there.dev(), there.ino())
}

/// What `fcntl` takes for one byte.
fn byte(kind: libc::c_int, at: i64) -> libc::flock {
    #[expect(clippy::cast_possible_truncation, reason = "small constants of the system")]
    let short = |number: libc::c_int| number as libc::c_short;
    libc::flock { l_type: short(kind), l_whence: short(libc::SEEK_SET), l_start: at, l_len: 1, l_pid: 0 }
}

/// Locks a byte, unless another has it.
fn lock(file: &File, at: i64) -> io::Result<bool> {
    match fcntl(file, FcntlArg::F_OFD_SETLK(&byte(libc::F_WRLCK, at))) {
        Ok(_) => Ok(true),
        Err(nix::Error::EAGAIN | nix::Error::EACCES) => Ok(false),
        Err(e) => Err(e.into()),
    }
}

fn unlock(file: &File, at: i64) {
    // Cannot fail for a lock that is ours, and would be undone at the end of the process.
    let _ = fcntl(file, FcntlArg::F_OFD_SETLK(&byte(libc::F_UNLCK, at)));
}

/// Whether another has a byte.
fn is_locked(file: &File, at: i64) -> io::Result<bool> {
    let mut asked = byte(libc::F_WRLCK, at);
    fcntl(file, FcntlArg::F_OFD_GETLK(&mut asked))?;
    Ok(i32::from(asked.l_type) != libc::F_UNLCK)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: Geometry = Geometry { slots: 4, slot_bytes: 128 };

    /// What is left of an end whose process was killed.
    fn kill(end: Attachment) {
        let mut end = std::mem::ManuallyDrop::new(end);
        // The lock goes with the last thing that holds the file.
        let nowhere = || File::open("/dev/null").unwrap();
        drop(std::mem::replace(&mut end.file, nowhere()));
        let unmapped = Memory::make(&tempfile::tempfile().unwrap(), SMALL).unwrap();
        drop(std::mem::replace(&mut end.memory, unmapped));
    }

    #[test]
    fn two_ends_and_no_third() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a-b");
        let first = Attachment::take(&path, SMALL).unwrap();
        assert!(!first.has_peer() && !first.look_for_peer());
        let second = Attachment::take(&path, SMALL).unwrap();
        assert_eq!((first.side(), second.side()), (Side::First, Side::Second));
        assert!(first.has_peer() && first.look_for_peer() && second.has_peer() && second.look_for_peer());
        let error = Attachment::take(&path, SMALL).unwrap_err();
        assert_eq!(error.message, format!("ring {}: both ends are taken", path.display()));
        drop(first);
        assert!(!second.has_peer() && !second.look_for_peer());
        let first = Attachment::take(&path, Geometry { slots: 64, ..SMALL }).unwrap();
        assert_eq!((first.side(), first.memory().geometry()), (Side::First, SMALL));
        assert!(first.has_peer() && second.has_peer());
        drop(second);
        assert!(path.exists() && !first.has_peer());
        drop(first);
        assert!(!path.exists(), "the last one takes the file away");
    }

    #[test]
    fn a_killed_end_is_missed_and_replaced() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a-b");
        let first = Attachment::take(&path, SMALL).unwrap();
        let second = Attachment::take(&path, SMALL).unwrap();
        kill(second);
        assert!(first.has_peer(), "it has said nothing");
        assert!(!first.look_for_peer() && !first.has_peer());
        let second = Attachment::take(&path, SMALL).unwrap();
        assert!(first.has_peer() && first.look_for_peer() && second.has_peer());
        kill(first);
        kill(second);
        assert!(path.exists());
        // Nobody is there: the ring is made anew.
        let first = Attachment::take(&path, Geometry { slots: 8, slot_bytes: 64 }).unwrap();
        assert_eq!(
            (first.side(), first.memory().geometry().slots, first.has_peer()),
            (Side::First, 8, false)
        );
    }

    #[test]
    fn other_files_are_left_alone() {
        use std::os::unix::fs::PermissionsExt;
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("notes");
        let error = |path: &Path| Attachment::take(path, SMALL).unwrap_err().message;
        fs::write(&path, "mine").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        assert_eq!(error(&path), format!("ring {}: the file is there and is no ring", path.display()));
        assert_eq!(fs::read(&path).unwrap(), b"mine");
        fs::write(&path, "").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o620)).unwrap();
        assert_eq!(error(&path), format!("ring {}: other users can write to it", path.display()));
        let missing = directory.path().join("none/ring");
        assert!(error(&missing).starts_with(&format!("ring {}: ", missing.display())));
        let link = directory.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert!(Attachment::take(&link, SMALL).is_err());
        let ring = directory.path().join("ring");
        let _first = Attachment::take(&ring, SMALL).unwrap();
        let longer = Attachment::take(&ring, Geometry { slots: 4, slot_bytes: 192 }).unwrap_err();
        assert_eq!(
            longer.message,
            format!("ring {}: the other end takes frames of up to 124 bytes, this one 188", ring.display())
        );
    }
}
