//! How a port spreads packets over its receive queues.
#![allow(unsafe_code)]

use crate::raw;
use io::{OpenError, Rss, RssFields, RssKeyBytes, RssOffer, RssState};
use std::ffi::CStr;

/// Why a port cannot be set up: the step, and DPDK's number.
type Refused = (&'static str, i32);

/// What a device is told, within what it offers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setting {
    offer: RssOffer,
    hashes: RssFields,
    key: Option<RssKeyBytes>,
    queues: Option<u16>,
}

impl Setting {
    /// From what was claimed.
    pub(crate) fn new(wish: Rss, offer: RssOffer) -> Setting {
        let hashes = wish.hashes(offer);
        // Without RSS there is nothing to have a key or a table.
        let wish = if hashes.is_none() { Rss::UNSAID } else { wish };
        Setting { offer, hashes, key: wish.key_bytes(offer), queues: wish.queues }
    }

    /// Refuses to spread over more queues than there are.
    ///
    /// # Errors
    /// What to tell the user.
    pub(crate) fn check(&self, name: &str, queues: u16) -> Result<(), OpenError> {
        match self.queues {
            Some(n) if n > queues => {
                let message =
                    format!("{name}: RSS_QUEUES is {n}, and {queues} of its receive queues are used");
                Err(OpenError::new(message, "lower it, or read more queues (N_QUEUES, workers)"))
            }
            _ => Ok(()),
        }
    }

    /// Configures the port; true if packets will come with their hash.
    pub(crate) fn configure(&self, id: u16, queues: [u16; 2], mtu: u32) -> Result<bool, Refused> {
        let rss = self.raw();
        // SAFETY: plain numbers, checked by DPDK, and a key that lives until the call returns, or none; no queue of the port
        // is out yet.
        match unsafe { raw::rb_configure(id, queues[0], queues[1], mtu, &raw const rss) } {
            code if code < 0 => Err(("set it up", code)),
            code => Ok(code == 1),
        }
    }

    /// For the shim; points to the key of this setting.
    fn raw(&self) -> raw::rb_rss {
        let key = self.key();
        raw::rb_rss {
            hashes: self.hashes.bits(),
            key: if key.is_empty() { std::ptr::null() } else { key.as_ptr() },
            key_len: u8::try_from(key.len()).unwrap_or(0),
        }
    }

    /// The key to set; empty for the driver's.
    fn key(&self) -> &[u8] {
        self.key.as_ref().map_or(&[], RssKeyBytes::as_slice)
    }

    /// Whether the started port does what it was told; `None` if it does not tell, or not this.
    fn is_done(&self, id: u16) -> [Option<bool>; 2] {
        let Some((hashes, key)) = hashes_and_key(id, self.offer) else { return [None; 2] };
        let is_key = (!key.is_empty()).then(|| self.key().is_empty() || key == self.key());
        // SAFETY: a function of numbers.
        [Some(unsafe { raw::rb_rss_to_words(hashes) } == self.hashes.bits()), is_key]
    }

    /// What the started port does; `None` if it hashes nothing.
    pub(crate) fn state(&self, id: u16) -> Option<RssState> {
        let Some((hashes, key)) = hashes_and_key(id, self.offer) else {
            return (!self.hashes.is_none()).then(RssState::default);
        };
        let hashes = names(hashes);
        (!hashes.is_empty()).then(|| RssState { hashes, key, table: table(id, self.offer.table) })
    }

    /// Writes the redirection table of the started port, and again what its driver did not take when it was configured.
    pub(crate) fn finish(&self, id: u16, queues: u16) -> Result<(), Refused> {
        if self.hashes.is_none() {
            return Ok(());
        }
        if self.offer.table > 0 {
            // SAFETY: plain numbers, checked by DPDK.
            let code = unsafe { raw::rb_table_set(id, self.offer.table, self.queues.unwrap_or(queues)) };
            // Nobody asked for a table if none is given: the driver's spreads over all queues as well.
            if code != 0 && self.queues.is_some() {
                return Err(("write its redirection table (RSS_QUEUES)", code));
            }
        }
        if !self.is_done(id).contains(&Some(false)) {
            return Ok(());
        }
        let rss = self.raw();
        // SAFETY: a port number, checked by DPDK, and a key that lives until the call returns, or none.
        let code = unsafe { raw::rb_rss_set(id, &raw const rss) };
        match self.is_done(id) {
            [_, Some(false)] => {
                Err(("set its RSS key (RSS_KEY)", if code == 0 { -libc::ENOTSUP } else { code }))
            }
            // What else it hashes, the handler `rss` tells.
            _ => Ok(()),
        }
    }
}

/// What a port of DPDK offers.
pub(crate) fn offer(raw: &raw::rb_info) -> RssOffer {
    RssOffer { fields: RssFields::from_bits(raw.rss_words), key: raw.rss_key_len, table: raw.rss_table }
}

/// DPDK's bits of what is hashed, and the key, which is empty if it cannot be read.
fn hashes_and_key(id: u16, offer: RssOffer) -> Option<(u64, Vec<u8>)> {
    if !offer.is_some() {
        return None;
    }
    let mut hashes = 0;
    // Some drivers write without asking how much room there is.
    let mut key = vec![0; usize::from(u8::MAX)];
    let mut len = offer.key_len();
    // SAFETY: room for the longest key that there can be.
    let code = unsafe { raw::rb_rss_get(id, &raw mut hashes, key.as_mut_ptr(), &raw mut len) };
    if code != 0 {
        return None;
    }
    key.truncate(usize::from(len));
    if key.iter().all(|byte| *byte == 0) {
        key.clear();
    }
    Some((hashes, key))
}

fn table(id: u16, size: u16) -> Vec<u16> {
    let mut table = vec![0; usize::from(size)];
    // SAFETY: room for that many entries.
    match unsafe { raw::rb_table_get(id, table.as_mut_ptr(), size) } {
        0 => table,
        _ => Vec::new(),
    }
}

fn names(hashes: u64) -> Vec<&'static str> {
    let mut names = Vec::new();
    for i in 0.. {
        let mut bit = 0;
        // SAFETY: room for one number.
        let name = unsafe { raw::rb_rss_name(i, &raw mut bit) };
        if name.is_null() {
            break;
        }
        if hashes & bit != 0 {
            // SAFETY: not null: a static string.
            let name = unsafe { CStr::from_ptr(name) };
            names.extend(name.to_str());
        }
    }
    names
}
