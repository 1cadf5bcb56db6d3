//! The PCI Express capability of a device, in its configuration space (PCI Express Base Specification §7.5.3).

/// Offset of the pointer to the first capability.
const FIRST: usize = 0x34;
/// Number of the PCI Express capability.
const EXPRESS: u8 = 0x10;
/// A list of capabilities has no more entries than fit behind the header.
const MOST: usize = 48;

/// What matters for speed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Express {
    /// The device can have up to 256 requests under way.
    pub extended_tag_supported: bool,
    /// It may.
    pub extended_tag: bool,
    /// Largest read request in bytes.
    pub max_read_request: u32,
}

/// Reads a configuration space; `None` if it has no such capability, or is cut off (all but 64 bytes need privileges).
pub fn express(config: &[u8]) -> Option<Express> {
    let word = |at: usize| Some(u16::from_le_bytes([*config.get(at)?, *config.get(at + 1)?]));
    let mut at = usize::from(*config.get(FIRST)? & 0xFC);
    for _ in 0..MOST {
        if at == 0 {
            return None;
        }
        if *config.get(at)? == EXPRESS {
            let (capabilities, control) = (word(at + 4)?, word(at + 8)?);
            return Some(Express {
                extended_tag_supported: capabilities >> 5 & 1 == 1,
                extended_tag: control >> 8 & 1 == 1,
                max_read_request: 128 << (control >> 12 & 7),
            });
        }
        at = usize::from(*config.get(at + 1)? & 0xFC);
    }
    None
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// A configuration space with a power management capability before PCI Express.
    pub fn space(capabilities: u16, control: u16) -> Vec<u8> {
        let mut config = vec![0; 256];
        config[FIRST] = 0x40;
        config[0x40] = 0x01;
        config[0x41] = 0x70;
        config[0x70] = EXPRESS;
        config[0x74..0x76].copy_from_slice(&capabilities.to_le_bytes());
        config[0x78..0x7A].copy_from_slice(&control.to_le_bytes());
        config
    }

    #[test]
    fn control_register() {
        let want = |supported, on, size| {
            Some(Express { extended_tag_supported: supported, extended_tag: on, max_read_request: size })
        };
        assert_eq!(express(&space(0x20, 0x2130)), want(true, true, 512));
        assert_eq!(express(&space(0x00, 0x5000)), want(false, false, 4096));
        assert_eq!(express(&space(0x20, 0x0000)), want(true, false, 128));
    }

    #[test]
    fn broken_spaces_end() {
        assert_eq!(express(&space(0, 0)[..64]), None);
        assert_eq!(express(&[]), None);
        let mut circle = space(0, 0);
        circle[0x41] = 0x40;
        assert_eq!(express(&circle), None);
        let mut end = space(0, 0);
        end[0x41] = 0;
        assert_eq!(express(&end), None);
    }
}
