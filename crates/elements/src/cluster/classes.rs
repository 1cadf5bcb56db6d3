//! Classes of traffic, as `ClusterSwitch` is told of them, and which of them a packet belongs to.

use super::settings::Named;
use cluster::path::Order;
use graph::{ArgError, Args, FromArg, Text};
use lang::args::Words;
use packet::wire::ethernet;

/// Code points of differentiated services: 6 bits (RFC 2474, 3).
const CODES: usize = 64;
/// Classes beside the usual one.
const MOST: usize = 3;
/// What the class is called of all packets that belong to no other one.
pub const USUAL: &str = "default";

/// A class beside the usual one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Class {
    /// What it is called.
    pub name: String,
    /// What order its packets are kept in.
    pub order: Order,
    /// The code points of its packets.
    codes: Vec<u8>,
}

/// All classes beside the usual one, which is number 0.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Classes {
    list: Vec<Class>,
    /// The number of the class of each code point.
    of_code: [u8; CODES],
}

/// `voice single-path 46 40 bulk spray 8`.
struct Several(Vec<Class>);

impl FromArg for Several {
    fn from_arg(arg: &Text) -> Result<Self, ArgError> {
        let mut words = Words::new(arg);
        let mut classes: Vec<Class> = Vec::new();
        while let Some(word) = words.peek() {
            match classes.last_mut() {
                Some(class) if word.text.starts_with(|c: char| c.is_ascii_digit()) => {
                    class.codes.push(words.take("code point")?);
                }
                _ => {
                    let name = words.take("name")?;
                    let Named(order) = words.take("order")?;
                    classes.push(Class { name, order, codes: Vec::new() });
                }
            }
        }
        Ok(Several(classes))
    }

    fn placeholder() -> Self {
        Several(Vec::new())
    }
}

impl Classes {
    /// Reads `CLASSES`; mistakes are noted in `args`.
    pub fn read(args: &mut Args) -> Classes {
        let Several(list) = args.keyword("CLASSES", Several(Vec::new()));
        Classes::new(list).unwrap_or_else(|message| {
            args.error("CLASSES", message);
            Classes { list: Vec::new(), of_code: [0; CODES] }
        })
    }

    fn new(list: Vec<Class>) -> Result<Classes, String> {
        if list.len() > MOST {
            return Err(format!("{} classes, there can be {MOST}", list.len()));
        }
        let mut of_code = [0; CODES];
        for ((place, class), number) in list.iter().enumerate().zip(1..) {
            let Class { name, codes, .. } = class;
            let is_word = |c: char| c.is_ascii_alphanumeric() || c == '-';
            if name == USUAL || list[..place].iter().any(|other| other.name == *name) {
                return Err(format!("class {name} twice"));
            } else if !name.starts_with(|c: char| c.is_ascii_alphabetic()) || !name.chars().all(is_word) {
                return Err("a name is a letter, and letters, digits and - behind it".to_owned());
            } else if codes.is_empty() {
                return Err(format!("class {name} has no code point"));
            }
            for code in codes {
                match of_code.get_mut(usize::from(*code)) {
                    Some(of @ 0) => *of = number,
                    Some(_) => return Err(format!("code point {code} twice")),
                    None => return Err(format!("no code point {code}, they are 0 to 63")),
                }
            }
        }
        Ok(Classes { list, of_code })
    }

    /// Those beside the usual one, number 1 first.
    pub fn list(&self) -> &[Class] {
        &self.list
    }

    /// The number of the class that a frame belongs to which begins so and has no tags. What is neither IPv4 nor IPv6 belongs
    /// to the usual one.
    #[inline(always)]
    pub fn of(&self, head: &[u8; 16]) -> u8 {
        let [.., a, b, first, second] = *head;
        let octet = match u16::from_be_bytes([a, b]) {
            ethernet::IPV4 => second,
            // Behind 4 bits of the version (RFC 8200, 3).
            ethernet::IPV6 => first << 4 | second >> 4,
            _ => return 0,
        };
        self.of_code[usize::from(octet >> 2)]
    }
}

impl Class {
    /// Its code points, with commas.
    pub fn codes(&self) -> String {
        self.codes.iter().map(u8::to_string).collect::<Vec<_>>().join(",")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::errors;

    #[test]
    fn the_code_point_says_the_class() {
        let class = |name: &str, codes: &[u8]| Class {
            name: name.to_owned(),
            order: Order::Spray,
            codes: codes.to_vec(),
        };
        let classes =
            Classes::new(vec![class("a", &[46, 0]), class("b", &[63]), class("c", &[1, 32])]).unwrap();
        let of = |frame: Vec<u8>| classes.of(&frame.try_into().unwrap());
        for code in 0..64 {
            let wanted = match code {
                46 | 0 => 1,
                63 => 2,
                1 | 32 => 3,
                _ => 0,
            };
            // Bits of congestion do not matter (RFC 3168), nor does the flow label.
            for rest in 0..4 {
                let octet = code << 2 | rest;
                let v4 = [&[2; 12][..], &[8, 0, 0x45, octet]].concat();
                let v6 = [&[2; 12][..], &[0x86, 0xDD, 6 << 4 | octet >> 4, octet << 4 | 0xF]].concat();
                assert_eq!((of(v4), of(v6)), (wanted, wanted), "{code}");
                let other = [&[2; 12][..], &[0x88, 0x47, 0x45, octet]].concat();
                assert_eq!(of(other), 0);
            }
        }
    }

    #[test]
    fn mistakes_are_told() {
        for (classes, wanted) in [
            ("voice single-path 46 40 bulk spray 8, ORDER flowlet", &[][..]),
            ("a spray 1 b spray 2 c spray 3", &[]),
            ("a spray 1 b spray 2 c spray 3 d spray 4", &["CLASSES: 4 classes, there can be 3"]),
            ("a spray 64", &["CLASSES: no code point 64, they are 0 to 63"]),
            ("a spray 1 b strict 2 1", &["CLASSES: code point 1 twice"]),
            ("a spray b strict 2", &["CLASSES: class a has no code point"]),
            ("a spray 1 a strict 2", &["CLASSES: class a twice"]),
            ("default spray 1", &["CLASSES: class default twice"]),
            ("a sprai 1", &["CLASSES: order: not one of strict, flowlet, spray, single-path"]),
            ("a_b spray 1", &["CLASSES: a name is a letter"]),
            ("46 spray 1", &["CLASSES: a name is a letter"]),
            ("a", &["CLASSES: "]),
            ("a spray 1x", &["CLASSES: code point: "]),
        ] {
            let text = format!(
                "Idle -> ClusterSwitch(NODE 0, NODES 1, LINE_RATE 1Gbps, CLASSES {classes}) -> Discard;"
            );
            let text = errors(&text);
            assert!(wanted.iter().all(|wanted| text.contains(wanted)), "{classes}: {text}");
            assert_eq!(text.is_empty(), wanted.is_empty(), "{text}");
        }
    }
}
