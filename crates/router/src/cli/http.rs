//! Where a running router serves HTTP, which can change.

use super::run::announce;
use crate::api::Server;
use crate::linux::ControlSide;
use graph::Router;
use std::io::{ErrorKind, Result};
use std::net::SocketAddr;
use std::sync::Arc;

/// Serves HTTP at an address, or not at all.
pub struct Http {
    router: Arc<Router>,
    control: Arc<ControlSide>,
    wanted: Option<SocketAddr>,
    server: Option<Server>,
}

impl Http {
    /// Serves this router, if there is an address.
    ///
    /// # Errors
    /// If it cannot be had.
    pub fn start(
        router: &Arc<Router>,
        control: &Arc<ControlSide>,
        address: Option<SocketAddr>,
    ) -> Result<Http> {
        let mut http = Http { router: router.clone(), control: control.clone(), wanted: None, server: None };
        http.serve_at(address)?;
        Ok(http)
    }

    /// Serves there instead. Requests that are under way elsewhere end.
    ///
    /// # Errors
    /// If the address cannot be had: then it serves where it did.
    pub fn serve_at(&mut self, address: Option<SocketAddr>) -> Result<()> {
        if address == self.wanted {
            return Ok(());
        }
        let server = match address.map(|address| self.server_at(address)).transpose() {
            // Perhaps it is us who have this port, at another address.
            Err(e) if e.kind() == ErrorKind::AddrInUse && self.server.take().is_some() => {
                let new = address.map(|address| self.server_at(address)).transpose();
                if new.is_err() {
                    self.server = self.wanted.and_then(|old| self.server_at(old).ok());
                }
                new
            }
            done => done,
        }?;
        server.iter().for_each(announce);
        (self.server, self.wanted) = (server, address);
        Ok(())
    }

    fn server_at(&self, address: SocketAddr) -> Result<Server> {
        Server::http_of(self.router.clone(), self.control.clone(), address)
    }
}
