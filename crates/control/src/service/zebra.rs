//! Where zebra connects, and what it sends there.

use crate::fpm::Session;
use crate::kernel::Model;
use std::io::{self, Read as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

/// Bytes that are read at once.
const AT_ONCE: usize = 64 * 1024;

/// A socket that listens, and the connection if there is one.
pub(super) struct Zebra {
    listener: TcpListener,
    connection: Option<(TcpStream, Session)>,
    buffer: Vec<u8>,
}

impl Zebra {
    /// Listens at this address, in the current network namespace.
    ///
    /// # Errors
    /// If the address cannot be had.
    pub fn open(address: SocketAddr) -> io::Result<Zebra> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        Ok(Zebra { listener, connection: None, buffer: vec![0; AT_ONCE] })
    }

    /// What to wait for.
    pub fn sockets(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let connection = self.connection.as_ref().map(|(stream, _)| stream.as_fd());
        [self.listener.as_fd()].into_iter().chain(connection)
    }

    /// Takes in what has come, for so long at most.
    pub fn read(&mut self, model: &mut Model, now: Duration, most: Duration) {
        // A new connection takes the place of the old one: zebra has been restarted.
        if let Ok((stream, _)) = self.listener.accept()
            && stream.set_nonblocking(true).is_ok()
        {
            self.connection = Some((stream, Session::new(model, now)));
        }
        let Some((stream, session)) = &mut self.connection else { return };
        let begun = Instant::now();
        let open = loop {
            if begun.elapsed() >= most {
                break true;
            }
            match stream.read(&mut self.buffer) {
                Ok(0) => break false,
                Ok(len) => {
                    let bytes = self.buffer.get(..len).unwrap_or_default();
                    if let Err(error) = session.feed(bytes, model, now) {
                        ::io::say!("warning: FPM: {error}; the connection is closed");
                        break false;
                    }
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => break e.kind() == io::ErrorKind::WouldBlock,
            }
        };
        if session.is_quiet(now) {
            session.sweep(model);
        }
        if !open {
            // Its routes stay until the next connection has sent what there is.
            self.connection = None;
        }
    }

    /// True if it is connected and has sent its first lot.
    pub fn is_synced(&self) -> bool {
        self.session().is_some_and(Session::is_synced)
    }

    /// True if it is connected and has not sent all of its first lot.
    pub fn is_starting(&self) -> bool {
        self.session().is_some_and(|session| !session.is_synced())
    }

    /// Messages on the current connection.
    pub fn messages(&self) -> Option<u64> {
        self.session().map(|session| session.messages)
    }

    fn session(&self) -> Option<&Session> {
        self.connection.as_ref().map(|(_, session)| session)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netlink::MAIN_TABLE;
    use crate::netlink::numbers::RTM_NEWROUTE;
    use crate::netlink::wire::Builder;
    use std::io::Write;
    use std::thread;

    const SECOND: Duration = Duration::from_secs(1);

    struct Rig {
        zebra: Zebra,
        model: Model,
    }

    impl Rig {
        fn new() -> Rig {
            let zebra = Zebra::open(([127, 0, 0, 1], 0).into()).unwrap();
            // Messages come in parts.
            Rig { zebra: Zebra { buffer: vec![0; 100], ..zebra }, model: Model::default() }
        }

        fn connect(&self) -> TcpStream {
            TcpStream::connect(self.zebra.listener.local_addr().unwrap()).unwrap()
        }

        /// Reads until it is so.
        fn read_until(&mut self, now: Duration, is_so: impl Fn(&Rig) -> bool) {
            while !is_so(self) {
                self.zebra.read(&mut self.model, now, SECOND);
                thread::yield_now();
            }
        }

        fn prefixes(&self) -> Vec<String> {
            let mut all: Vec<_> =
                self.model.routes4.table(MAIN_TABLE).map(|(prefix, _)| prefix.to_string()).collect();
            all.sort();
            all
        }
    }

    /// 10.0.`third`.0/24, as it comes from zebra.
    fn route(third: u8) -> Vec<u8> {
        let body = [2, 24, 0, 0, 254, 186, 0, 1, 0, 0, 0, 0];
        let message = Builder::new(RTM_NEWROUTE, 0x501, 0, &body).with(1, &[10, 0, third, 0]).bytes();
        [&[1, 1, 0, message.len() as u8 + 4], &message[..]].concat()
    }

    #[test]
    fn a_new_connection_takes_the_place_of_the_old_one() {
        let mut rig = Rig::new();
        assert_eq!((rig.zebra.messages(), rig.zebra.sockets().count()), (None, 1));
        let mut old = rig.connect();
        old.write_all(&[route(1), route(2)].concat()).unwrap();
        rig.read_until(SECOND, |rig| rig.zebra.messages() == Some(2));
        assert_eq!((rig.zebra.is_starting(), rig.zebra.is_synced()), (true, false));
        assert_eq!(rig.zebra.sockets().count(), 2);
        rig.read_until(SECOND + Session::QUIET, |rig| rig.zebra.is_synced());
        assert!(!rig.zebra.is_starting());
        let mut new = rig.connect();
        new.write_all(&route(2)).unwrap();
        rig.read_until(SECOND * 9, |rig| rig.zebra.messages() == Some(1));
        // What the old one had sent stays until the new one has sent all.
        assert_eq!(
            (rig.prefixes(), rig.zebra.is_synced()),
            (vec!["10.0.1.0/24".into(), "10.0.2.0/24".into()], false)
        );
        rig.read_until(SECOND * 9 + Session::QUIET, |rig| rig.zebra.is_synced());
        assert_eq!(rig.prefixes(), ["10.0.2.0/24"]);
    }

    #[test]
    fn routes_stay_when_the_connection_ends() {
        let end = |peer: TcpStream| drop(peer);
        let break_off = |mut peer: TcpStream| peer.write_all(&[9; 8]).unwrap();
        for how in [&end as &dyn Fn(TcpStream), &break_off] {
            let mut rig = Rig::new();
            let mut peer = rig.connect();
            peer.write_all(&route(1)).unwrap();
            rig.read_until(SECOND, |rig| rig.zebra.messages() == Some(1));
            how(peer);
            rig.read_until(SECOND, |rig| rig.zebra.messages().is_none());
            assert_eq!((rig.prefixes(), rig.zebra.is_synced()), (vec!["10.0.1.0/24".to_owned()], false));
        }
    }
}
