//! Rings beside other devices.

use super::attachment::Attachment;
use super::port::RingPort;
use super::{LIMITS, Name};
use crate::devices::{Devices, OpenError, PoolSize};
use crate::port::{Claim, Limits, Port};
use crate::rss::RssOffer;
use packet::Pool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Other devices, and rings by the names that [`super`] describes. Received packets go into buffers of the others' pool.
pub struct WithRings {
    others: Arc<dyn Devices>,
    rings: Mutex<Vec<Ring>>,
}

/// A ring that somebody has named.
struct Ring {
    /// As it was written first.
    text: String,
    name: Name,
    claim: Option<Claim>,
    port: Option<Arc<RingPort>>,
}

/// What is wrong with a name that is one of a ring, whether or not it can be opened.
pub fn refuse(name: &str) -> Option<OpenError> {
    Name::parse(name).and_then(Result::err)
}

impl WithRings {
    /// Rings beside these devices.
    pub fn new(others: Arc<dyn Devices>) -> WithRings {
        WithRings { others, rings: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Ring>> {
        self.rings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does something with the ring of this name; `None` if it is no name of a ring.
    fn ring<T>(
        &self,
        text: &str,
        work: impl FnOnce(&mut Ring) -> Result<T, OpenError>,
    ) -> Option<Result<T, OpenError>> {
        let name = match Name::parse(text)? {
            Ok(name) => name,
            Err(e) => return Some(Err(e)),
        };
        let mut rings = self.lock();
        let known = rings.iter().position(|ring| ring.name.path == name.path);
        let at = known.unwrap_or_else(|| {
            rings.push(Ring { text: text.to_owned(), name: name.clone(), claim: None, port: None });
            rings.len() - 1
        });
        let ring = rings.get_mut(at)?;
        if ring.name != name {
            let message = format!("{text} and {} are one ring", ring.text);
            return Some(Err(OpenError::new(message, "write the same name in both places")));
        }
        Some(work(ring))
    }
}

impl Ring {
    fn claim(&mut self, claim: Claim) -> Result<(), OpenError> {
        if self.port.is_some() {
            return Err(OpenError::new(format!("{} is already started", self.text), ""));
        }
        if claim.rx_queues > LIMITS.rx_queues || claim.tx_queues > LIMITS.tx_queues {
            let message = format!("{} has one queue each way; more are asked for", self.text);
            return Err(OpenError::new(message, "use one, or several rings"));
        }
        self.claim = Some(self.claim.unwrap_or_default().and(claim));
        Ok(())
    }

    /// Takes an end of the ring, if somebody claimed it.
    fn start(&mut self, pool: &Pool) -> Result<(), OpenError> {
        let Some(claim) = self.claim.filter(|_| self.port.is_none()) else { return Ok(()) };
        let (mtu, geometry) = (self.name.mtu(claim), self.name.geometry(claim));
        let (room, frame) = (pool.data_room(), usize::from(mtu) + super::FRAME_EXTRA as usize);
        if frame > room {
            let message = format!(
                "{}: its frames need buffers of {frame} bytes, those there are have {room}",
                self.text
            );
            return Err(OpenError::new(message, "lower its MTU, or ask for larger buffers (DPDKInfo)"));
        }
        let end = Attachment::take(&self.name.path, geometry)?;
        self.port = Some(Arc::new(RingPort::new(&self.text, mtu, pool.clone(), end)));
        Ok(())
    }

    fn port(&self) -> Result<Arc<dyn Port>, OpenError> {
        match &self.port {
            Some(port) => Ok(port.clone()),
            None => Err(OpenError::new(format!("{} is not started", self.text), "")),
        }
    }
}

impl Devices for WithRings {
    fn limits(&self, name: &str) -> Result<Limits, OpenError> {
        self.ring(name, |_| Ok(LIMITS)).unwrap_or_else(|| self.others.limits(name))
    }

    fn rss(&self, name: &str) -> Option<RssOffer> {
        match self.ring(name, |_| Ok(RssOffer::default())) {
            Some(ring) => ring.ok(),
            None => self.others.rss(name),
        }
    }

    fn claim(&self, name: &str, claim: Claim) -> Result<(), OpenError> {
        self.ring(name, |ring| ring.claim(claim)).unwrap_or_else(|| self.others.claim(name, claim))
    }

    fn expect(&self) {
        self.others.expect();
    }

    fn start(&self) -> Result<(), OpenError> {
        self.others.start()?;
        let pool = self.others.pool();
        let started = self.lock().iter_mut().try_for_each(|ring| ring.start(&pool));
        if started.is_err() {
            self.stop();
        }
        started
    }

    fn port(&self, name: &str) -> Result<Arc<dyn Port>, OpenError> {
        self.ring(name, |ring| ring.port()).unwrap_or_else(|| self.others.port(name))
    }

    fn attach(&self, name: &str, claim: Claim) -> Result<Arc<dyn Port>, OpenError> {
        let attached = self.ring(name, |ring| {
            if ring.port.is_none() {
                ring.claim(claim)?;
                ring.start(&self.others.pool())?;
            }
            ring.port()
        });
        attached.unwrap_or_else(|| self.others.attach(name, claim))
    }

    fn ports(&self) -> Vec<Arc<dyn Port>> {
        let rings = self.lock().iter().filter_map(|ring| ring.port().ok()).collect::<Vec<_>>();
        self.others.ports().into_iter().chain(rings).collect()
    }

    fn warnings(&self) -> Vec<String> {
        self.others.warnings()
    }

    fn pool(&self) -> Pool {
        self.others.pool()
    }

    fn set_pool_size(&self, size: PoolSize) {
        self.others.set_pool_size(size);
    }

    fn stop(&self) {
        self.lock().clear();
        self.others.stop();
    }
}
