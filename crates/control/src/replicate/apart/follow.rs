//! The end of the router process.

use super::pipe::Pipe;
use crate::priority;
use crate::replicate::channel::ChannelError;
use crate::replicate::client::ALIVE;
use crate::replicate::log::Waker;
use crate::replicate::message::Message;
use crate::replicate::replica::{Answer, Replica};
use crate::replicate::server::waker;
use crate::replicate::wire::ProtocolError;
use std::io;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// A control process that says nothing for so long hangs.
const SILENCE: Duration = Duration::from_secs(10);

/// Ends [`follow`] from another thread.
#[derive(Debug)]
pub struct Reins {
    waker: Arc<Waker>,
    pulled: AtomicBool,
}

impl Reins {
    /// New ones.
    ///
    /// # Errors
    /// Those of the system.
    pub fn new() -> io::Result<Reins> {
        Ok(Reins { waker: waker()?, pulled: AtomicBool::new(false) })
    }

    /// Ends the connection that there is, or the next one.
    pub fn pull(&self) {
        self.pulled.store(true, Ordering::Release);
        self.waker.wake();
    }

    /// True if they were pulled; not for the next call.
    fn take(&self) -> bool {
        self.waker.rest();
        self.pulled.swap(false, Ordering::AcqRel)
    }
}

/// Makes in the tables of `replica` what a control process says, until that ends, says nothing for a while, or somebody
/// pulls at the reins, which is no error. The calling thread goes before others from now on. `tell` is called with the reports, and how far the tables have come if they are whole.
///
/// # Errors
/// Why it has ended. The tables stay as they are.
pub fn follow(
    stream: UnixStream,
    replica: &mut Replica,
    reins: &Reins,
    mut tell: impl FnMut(Option<&[u8]>, Option<u64>),
) -> Result<(), ChannelError> {
    priority::raise();
    let mut pipe = Pipe::new(stream)?;
    pipe.out().extend(replica.hello_anew("router"));
    let (mut heard, mut said, mut acknowledged, mut synced) = (Instant::now(), Instant::now(), 0, false);
    while !reins.take() {
        let mut came = false;
        let moved = pipe.turn(|kind, body, out| {
            came = true;
            if let Message::Report(report) = Message::decode(kind, body)? {
                tell(Some(report), replica.is_synced().then(|| replica.position()));
            }
            match replica.take(kind, body)? {
                Answer::None => {}
                Answer::Send(bytes) => out.extend(bytes),
                Answer::Refused(_) => return Err(ProtocolError::Turn("a refusal")),
            }
            Ok(())
        })?;
        if replica.is_synced() != synced {
            synced = replica.is_synced();
            tell(None, synced.then(|| replica.position()));
        }
        let now = Instant::now();
        if came {
            heard = now;
        } else if now - heard >= SILENCE {
            return Err(ChannelError::Late("nothing was heard", SILENCE));
        }
        let position = replica.position();
        if replica.is_welcome() && pipe.is_idle() && (position > acknowledged || now - said >= ALIVE) {
            pipe.out().extend(Message::Ack(position).encode());
            (acknowledged, said) = (position, now);
        } else if !moved {
            pipe.wait(&reins.waker, ALIVE / 4);
        }
    }
    Ok(())
}
