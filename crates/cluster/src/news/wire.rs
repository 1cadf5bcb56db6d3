//! News as it stands in a hello.

use thiserror::Error;

use crate::header::INCARNATIONS;
use crate::topology::Topology;

/// The version that this code writes. 0 is what pads a frame: no news.
pub const VERSION: u8 = 1;
/// The versions that this code reads.
pub const READS: &[u8] = &[VERSION];
/// Records in one hello, at most.
pub const MOST: usize = 32;
/// What ages are counted in, nanoseconds.
pub const AGE_UNIT: u64 = 8_000_000;
/// Links that a record has bits for: a fly that the header can name has at most 90 at a node.
pub(super) const LINKS: usize = 128;

/// Octets of a record before its bits.
const LEN: usize = 10;

/// What a node says of its links, on its way through the fly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record {
    /// The node that says it.
    pub origin: u16,
    /// Which life of it, below [`INCARNATIONS`].
    pub incarnation: u8,
    /// Its number in that life, of 32 bits in a circle (RFC 1982).
    pub sequence: u32,
    /// How long ago it was said, in [`AGE_UNIT`]s, rounded up at each node.
    pub age: u16,
    /// Bit i: the link to [`Topology::neighbours`]`(origin)[i]` is up.
    pub up: u128,
    /// It asks not to be on the way of what is not for it.
    pub drains: bool,
}

/// What is wrong with news. All of it is dropped then, and counted as `news`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum NewsError {
    /// Less than it says that there is.
    #[error("news are cut short")]
    Short,
    /// More than [`MOST`] records.
    #[error("more records than a hello has")]
    Count,
    /// A node that the fly does not have.
    #[error("news from a node that there is not")]
    Origin,
    /// An incarnation out of range.
    #[error("news of an incarnation out of range")]
    Incarnation,
    /// Not the links that the fly has at that node.
    #[error("news of links that there are not")]
    Links,
}

/// The bits of so many links.
pub(super) fn all(links: usize) -> u128 {
    u128::MAX.checked_shr(LINKS.saturating_sub(links) as u32).unwrap_or(0)
}

/// Writes what stands behind a hello's neighbours: a version, a number of records, the records; and if any of them drains, a
/// bit for each, the first being the highest. Who does not know of these ignores them.
pub fn write(topology: &Topology, records: &[Record], out: &mut Vec<u8>) {
    let records = &records[..records.len().min(MOST)];
    out.extend([VERSION, records.len() as u8]);
    for record in records {
        let links = topology.neighbours(record.origin).len().min(LINKS);
        out.extend(record.origin.to_be_bytes());
        out.extend([record.incarnation, links as u8]);
        out.extend(record.sequence.to_be_bytes());
        out.extend(record.age.to_be_bytes());
        out.extend(&record.up.reverse_bits().to_be_bytes()[..links.div_ceil(8)]);
    }
    if records.iter().any(|record| record.drains) {
        let octet = |records: &[Record]| {
            let bit = |(place, record): (u32, &Record)| (u8::from(record.drains) << 7) >> place;
            (0..).zip(records).map(bit).fold(0, |octet, bit| octet | bit)
        };
        out.extend(records.chunks(8).map(octet));
    }
}

/// Reads it. Nothing, and a version that is not known, is no news.
///
/// # Errors
/// What is wrong with the first record that has something wrong.
pub fn read(topology: &Topology, bytes: &[u8]) -> Result<Vec<Record>, NewsError> {
    let Some((&[version, count], mut rest)) = bytes.split_first_chunk() else { return Ok(Vec::new()) };
    if !READS.contains(&version) {
        return Ok(Vec::new());
    } else if usize::from(count) > MOST {
        return Err(NewsError::Count);
    }
    let mut records = Vec::with_capacity(count.into());
    for _ in 0..count {
        let (record, behind) = read_one(topology, rest)?;
        records.push(record);
        rest = behind;
    }
    // None drains where the bits are not there.
    for (place, record) in records.iter_mut().enumerate() {
        record.drains = rest.get(place / 8).is_some_and(|octet| octet & 0x80 >> (place % 8) != 0);
    }
    Ok(records)
}

fn read_one<'a>(topology: &Topology, bytes: &'a [u8]) -> Result<(Record, &'a [u8]), NewsError> {
    let (head, rest) = bytes.split_first_chunk::<LEN>().ok_or(NewsError::Short)?;
    let [o, p, incarnation, links, a, b, c, d, e, f] = *head;
    let origin = u16::from_be_bytes([o, p]);
    if origin >= topology.nodes() {
        return Err(NewsError::Origin);
    } else if incarnation >= INCARNATIONS {
        return Err(NewsError::Incarnation);
    } else if usize::from(links) != topology.neighbours(origin).len() || usize::from(links) > LINKS {
        return Err(NewsError::Links);
    }
    let links = usize::from(links);
    let (bits, rest) = rest.split_at_checked(links.div_ceil(8)).ok_or(NewsError::Short)?;
    let mut octets = [0; LINKS / 8];
    octets.iter_mut().zip(bits).for_each(|(octet, bit)| *octet = *bit);
    let up = u128::from_be_bytes(octets).reverse_bits();
    if up & !all(links) != 0 {
        return Err(NewsError::Links);
    }
    let (sequence, age) = (u32::from_be_bytes([a, b, c, d]), u16::from_be_bytes([e, f]));
    Ok((Record { origin, incarnation, sequence, age, up, drains: false }, rest))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn fly() -> Topology {
        Topology::fly(2, 2).unwrap()
    }

    #[test]
    fn news_are_read_as_written() {
        let record = Record {
            origin: 6,
            incarnation: 15,
            sequence: 0x0102_0304,
            age: 0x0A0B,
            up: 0b101,
            drains: false,
        };
        let other = Record { origin: 0, incarnation: 0, sequence: u32::MAX, age: 0, up: 0, drains: false };
        let mut bytes = Vec::new();
        write(&fly(), &[record, other], &mut bytes);
        assert_eq!(bytes[..13], [1, 2, 0, 6, 15, 3, 1, 2, 3, 4, 10, 11, 0b1010_0000]);
        assert_eq!(read(&fly(), &bytes), Ok(vec![record, other]));
        bytes.extend([0x3F, 7, 7]);
        assert_eq!(
            read(&fly(), &bytes),
            Ok(vec![record, other]),
            "what is behind them is for later versions"
        );
        bytes[0] = 2;
        assert_eq!(read(&fly(), &bytes), Ok(vec![]), "so is another version");
        assert_eq!((read(&fly(), &[0; 40]), read(&fly(), &[])), (Ok(vec![]), Ok(vec![])), "nor is padding");
    }

    #[test]
    fn who_drains_stands_behind_the_records() {
        let record = Record { origin: 6, incarnation: 1, sequence: 0, age: 0, up: 0, drains: false };
        let drains = Record { drains: true, ..record };
        let mut bytes = Vec::new();
        let sent: Vec<Record> = [vec![record, drains], vec![record; 6], vec![drains]].concat();
        write(&fly(), &sent, &mut bytes);
        let records = 2 + 9 * 11;
        assert_eq!(bytes[records..], [0x40, 0x80]);
        assert_eq!(read(&fly(), &bytes), Ok(sent));
        // A node of the version before says nothing of it.
        assert_eq!(read(&fly(), &bytes[..records]), Ok(vec![record; 9]));
    }

    #[test]
    fn what_is_out_of_range_is_told() {
        let mut bytes = Vec::new();
        let record = Record { origin: 6, incarnation: 1, sequence: 0, age: 0, up: 0b101, drains: false };
        write(&fly(), &[record], &mut bytes);
        let with = |place: usize, octet: u8| {
            let mut changed = bytes.clone();
            changed[place] = octet;
            read(&fly(), &changed).unwrap_err()
        };
        assert_eq!(with(1, 33), NewsError::Count);
        assert_eq!(with(1, 2), NewsError::Short);
        assert_eq!(with(3, 8), NewsError::Origin);
        assert_eq!(with(2, 1), NewsError::Origin);
        assert_eq!(with(4, 16), NewsError::Incarnation);
        assert_eq!(with(5, 2), NewsError::Links);
        assert_eq!(with(12, 0b1011_0000), NewsError::Links);
        assert_eq!(read(&fly(), &bytes[..12]), Err(NewsError::Short));
        assert_eq!((all(0), all(3), all(128)), (0, 7, u128::MAX));
    }

    #[test]
    fn the_largest_fly_fits_a_hello() {
        let fly = Topology::fly(45, 2).unwrap();
        assert_eq!(fly.neighbours(7).len(), 89);
        let record = Record { origin: 7, incarnation: 1, sequence: 9, age: 1, up: all(89), drains: true };
        let mut bytes = Vec::new();
        write(&fly, &[record; MOST + 1], &mut bytes);
        assert_eq!(read(&fly, &bytes), Ok(vec![record; MOST]));
        let neighbours = 2 + usize::from(fly.nodes()).div_ceil(8);
        assert!(14 + crate::message::LEN + neighbours + bytes.len() <= 1500, "{}", bytes.len());
    }

    proptest! {
        #[test]
        fn any_bytes_are_refused_or_what_they_say(
            bytes in prop::collection::vec(prop_oneof![0u8..4, any::<u8>()], 0..100),
        ) {
            if let Ok(records) = read(&fly(), &bytes) && bytes.first() == Some(&VERSION) && bytes.len() > 1 {
                let mut again = Vec::new();
                write(&fly(), &records, &mut again);
                let octets = 2 + records.len() * 11;
                prop_assert_eq!(again.get(..octets), bytes.get(..octets));
                prop_assert_eq!(read(&fly(), &again), Ok(records));
            }
        }
    }
}
