//! Which running router is meant.

use super::failed;
use crate::api::{client::Client, socket};
use crate::config::Reported;
use clap::Args;
use std::path::PathBuf;

/// A running router; the only one, unless it is named.
#[derive(Debug, Args)]
pub struct Which {
    /// The router with this process number, if several are running
    #[arg(long, conflicts_with = "socket")]
    pid: Option<u32>,

    /// The router with this Unix socket
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
}

impl Which {
    /// A connection to it.
    ///
    /// # Errors
    /// If there is none, or more than one and none is named, or it does not answer; that was printed.
    pub fn client(&self) -> Result<Client, Reported> {
        let client = Client::new(self.find()?);
        client.greet().map_err(failed)?;
        Ok(client)
    }

    fn find(&self) -> Result<PathBuf, Reported> {
        if let Some(path) = &self.socket {
            return Ok(path.clone());
        }
        let Some(directory) = socket::directory() else {
            return Err(failed("no router found: XDG_RUNTIME_DIR is not set; name its socket with --socket"));
        };
        choose(&socket::running(&directory), self.pid).map_err(|e| {
            let advice = match nix::unistd::geteuid().is_root() {
                true => "",
                false => "; a router that root runs is seen by root only",
            };
            failed(format_args!("{e} (looked in {}){advice}", directory.display()))
        })
    }
}

fn choose(running: &[(u32, PathBuf)], pid: Option<u32>) -> Result<PathBuf, String> {
    let list = || running.iter().map(|(pid, _)| pid.to_string()).collect::<Vec<_>>().join(", ");
    match (running, pid) {
        ([], _) => Err("no router is running".to_owned()),
        (_, Some(pid)) => match running.iter().find(|(p, _)| *p == pid) {
            Some((_, path)) => Ok(path.clone()),
            None => Err(format!("process {pid} is not a running router; there are: {}", list())),
        },
        ([(_, path)], None) => Ok(path.clone()),
        (_, None) => Err(format!("several routers are running: choose one with --pid: {}", list())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_router_that_is_meant() {
        let one = [(7, PathBuf::from("7.sock"))];
        let two = [(7, PathBuf::from("7.sock")), (9, PathBuf::from("9.sock"))];
        assert_eq!(choose(&[], None), Err("no router is running".to_owned()));
        assert_eq!(choose(&one, None), Ok("7.sock".into()));
        assert_eq!(choose(&two, Some(9)), Ok("9.sock".into()));
        let several = "several routers are running: choose one with --pid: 7, 9";
        assert_eq!(choose(&two, None), Err(several.to_owned()));
        let wrong = "process 8 is not a running router; there are: 7, 9";
        assert_eq!(choose(&two, Some(8)), Err(wrong.to_owned()));
    }
}
