//! Where elements get their ports from.

use crate::port::{Claim, Limits, Port};
use crate::rss::RssOffer;
use packet::Pool;
use std::sync::Arc;
use thiserror::Error;

/// Why a port cannot be had. The text says what to do about it.
#[derive(Debug, Error, Clone, PartialEq, Eq)]
#[error("{message}")]
pub struct OpenError {
    /// What is wrong.
    pub message: String,
    /// What to do about it; may be empty.
    pub help: String,
}

impl OpenError {
    /// An error with a remedy.
    pub fn new(message: impl Into<String>, help: impl Into<String>) -> OpenError {
        OpenError { message: message.into(), help: help.into() }
    }
}

/// The devices of this process.
///
/// Order of use: elements call [`Devices::limits`] and [`Devices::claim`] while they are configured; the router calls
/// [`Devices::start`] once; elements then get their [`Port`]s with [`Devices::port`] while they are initialised. Further
/// devices can be had later by [`Devices::attach`], from any thread.
pub trait Devices: Send + Sync {
    /// What the device can do.
    ///
    /// # Errors
    /// If there is no such device or it cannot be opened.
    fn limits(&self, name: &str) -> Result<Limits, OpenError>;

    /// What RSS the device has; `None` if that cannot be told.
    fn rss(&self, _name: &str) -> Option<RssOffer> {
        None
    }

    /// Asks for queues and settings of a device. Claims of several elements on one device add up.
    ///
    /// # Errors
    /// If there is no such device or it cannot give what is asked for.
    fn claim(&self, name: &str, claim: Claim) -> Result<(), OpenError>;

    /// A device will be attached later: the pool shall have room for what it receives into.
    fn expect(&self) {}

    /// Sets up and starts every claimed device. Nothing stays started if it fails.
    ///
    /// # Errors
    /// If a device refuses.
    fn start(&self) -> Result<(), OpenError>;

    /// A started port.
    ///
    /// # Errors
    /// If it was never claimed or started.
    fn port(&self, name: &str) -> Result<Arc<dyn Port>, OpenError>;

    /// Sets up and starts a device while the others run; one that is started already is given as it is.
    ///
    /// # Errors
    /// If there is no such device, or it refuses, or it was started with fewer queues.
    fn attach(&self, name: &str, _: Claim) -> Result<Arc<dyn Port>, OpenError> {
        Err(OpenError::new(format!("{name}: these devices cannot be added to while they run"), ""))
    }

    /// All started ports.
    fn ports(&self) -> Vec<Arc<dyn Port>> {
        Vec::new()
    }

    /// What the user should know of how the devices were opened, a line each.
    fn warnings(&self) -> Vec<String> {
        Vec::new()
    }

    /// The pool that packets for these devices must come from.
    fn pool(&self) -> Pool;

    /// Wishes for the pool, made before the first device is opened (`DPDKInfo`). Ignored when it is too late.
    fn set_pool_size(&self, size: PoolSize);

    /// Stops and closes everything. Queues must have been dropped before.
    fn stop(&self);
}

/// How large a pool shall be. What is not said is as the devices need it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolSize {
    /// Buffers in all.
    pub buffers: Option<usize>,
    /// Buffers besides those that rings of devices hold; without effect if `buffers` is given.
    pub spare: Option<usize>,
    /// Bytes of packet in each.
    pub data_room: Option<u16>,
}

/// For configurations without devices: a heap pool, and an error for every name.
#[derive(Debug)]
pub struct NoDevices {
    pool: Pool,
    help: String,
}

impl NoDevices {
    /// Buffers of the heap pool; memory is obtained as needed.
    pub const BUFFERS: usize = 65_536;
    /// Bytes that one buffer takes: room for jumbo frames.
    pub const DATA_ROOM: u16 = 9_856;

    /// No devices; `help` tells the user how to get some.
    pub fn new(help: impl Into<String>) -> NoDevices {
        NoDevices { pool: Pool::heap(Self::BUFFERS, Self::DATA_ROOM), help: help.into() }
    }

    fn refuse(&self, name: &str) -> OpenError {
        OpenError::new(format!("no device '{name}'"), self.help.clone())
    }
}

impl Devices for NoDevices {
    fn limits(&self, name: &str) -> Result<Limits, OpenError> {
        Err(self.refuse(name))
    }

    fn claim(&self, name: &str, _: Claim) -> Result<(), OpenError> {
        Err(self.refuse(name))
    }

    fn start(&self) -> Result<(), OpenError> {
        Ok(())
    }

    fn port(&self, name: &str) -> Result<Arc<dyn Port>, OpenError> {
        Err(self.refuse(name))
    }

    fn pool(&self) -> Pool {
        self.pool.clone()
    }

    fn set_pool_size(&self, _: PoolSize) {}

    fn stop(&self) {}
}
