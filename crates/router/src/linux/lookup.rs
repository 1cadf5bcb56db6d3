//! What the tables that all ports share are looked up in.

use crate::toml_file::{Reader, Value};
use fib::{Structure, Structured};
use graph::Router;

/// The name of no structure, but of whichever is the quickest for the routes that there are.
const QUICKEST: &str = "quickest";

/// The elements of the first port that look up in these tables, by the address family; all others look up in the same.
const ELEMENTS: [&str; 2] = ["rt0", "rt6_0"];

/// What lookup elements are told about their structure: the name of one that they know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted(&'static str);

impl Wanted {
    /// The names for addresses of a family.
    pub fn names<A: Structured>() -> impl Iterator<Item = &'static str> {
        let fit = Structure::ALL.into_iter().filter(|structure| A::fib(*structure).is_some());
        fit.map(Structure::name).chain([QUICKEST])
    }

    /// By its name.
    pub fn of_name<A: Structured>(name: &str) -> Option<Wanted> {
        Wanted::names::<A>().find(|known| *known == name).map(Wanted)
    }

    fn read<A: Structured>(&mut self, reader: &mut Reader, [name, family]: [&str; 2], value: &Value<'_>) {
        let Some(text) = reader.word(name, value, |text| Ok(text.to_owned())) else { return };
        match Wanted::of_name::<A>(&text) {
            Some(wanted) => *self = wanted,
            None => {
                let what = format!("structure for {family}");
                reader.unknown(value.span(), &text, &what, Wanted::names::<A>());
            }
        }
    }

    /// Whether a table is there already, by its handler `structure`. The quickest is to be measured again.
    fn is_met(self, shown: &str) -> bool {
        self.0 != QUICKEST && shown == self.0
    }
}

/// The structures of the tables of IPv4 and IPv6.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lookup {
    /// Of IPv4.
    pub ipv4: Wanted,
    /// Of IPv6.
    pub ipv6: Wanted,
}

impl Default for Lookup {
    /// Those that the tables are made with.
    fn default() -> Lookup {
        let [ipv4, ipv6] = [super::STRUCTURE4, super::STRUCTURE6].map(|own| Wanted(own.name()));
        Lookup { ipv4, ipv6 }
    }
}

impl Lookup {
    /// What its table in a file may say.
    pub const FAMILIES: [&str; 2] = ["ipv4", "ipv6"];

    /// Takes it from the table `lookup` of a file.
    pub fn read(reader: &mut Reader, value: &Value<'_>) -> Lookup {
        let mut lookup = Lookup::default();
        let Some(table) = value.get_ref().as_table() else {
            reader.wrong_type("lookup", "a table", value);
            return lookup;
        };
        for (key, value) in table {
            match key.get_ref().as_ref() {
                "ipv4" => lookup.ipv4.read::<u32>(reader, ["ipv4", "IPv4"], value),
                "ipv6" => lookup.ipv6.read::<u128>(reader, ["ipv6", "IPv6"], value),
                name => reader.unknown(key.span(), name, "address family", Lookup::FAMILIES),
            }
        }
        lookup
    }

    /// The argument for each of the two elements of a port, with a comma behind it. Those of the first port are enough, and they
    /// need none if the tables are made so.
    pub(super) fn arguments(self, port: usize) -> [String; 2] {
        let own = Lookup::default();
        [(self.ipv4, own.ipv4), (self.ipv6, own.ipv6)].map(|(wanted, own)| match wanted {
            Wanted(name) if port == 0 && wanted != own => format!("STRUCTURE {name}, "),
            _ => String::new(),
        })
    }

    /// Moves the tables of a running router there.
    ///
    /// # Errors
    /// What the router says.
    pub fn apply(self, router: &Router) -> Result<(), String> {
        for (element, wanted) in ELEMENTS.into_iter().zip([self.ipv4, self.ipv6]) {
            let shown = router.read(element, "structure", "").map_err(|e| e.to_string())?;
            if !wanted.is_met(&shown) {
                router.write(element, "structure", wanted.0).map_err(|e| e.to_string())?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_each_family() {
        let all = ["dir24_8", "range_tree", "poptrie", "radix", "linear", "quickest"];
        assert_eq!(Wanted::names::<u32>().collect::<Vec<_>>(), all);
        assert_eq!(Wanted::names::<u128>().collect::<Vec<_>>(), all[1..]);
        assert_eq!(Wanted::of_name::<u32>("dir24_8"), Some(Wanted("dir24_8")));
        assert_eq!(["dir24_8", "Radix", ""].map(Wanted::of_name::<u128>), [None; 3]);
    }

    #[test]
    fn tables_are_made_as_is_said_of_them() {
        let tables = crate::linux::tables(&graph::Tables::new(), 1);
        let made = [tables.routes4.structure(), tables.routes6.structure()];
        let Lookup { ipv4, ipv6 } = Lookup::default();
        assert_eq!(made.map(|structure| structure.map(Structure::name)), [Some(ipv4.0), Some(ipv6.0)]);
    }

    #[test]
    fn only_the_first_port_is_told_and_only_what_is_not_so_by_itself() {
        let quickest = Wanted::of_name::<u128>("quickest").unwrap();
        let lookup = Lookup { ipv6: quickest, ..Lookup::default() };
        assert_eq!(lookup.arguments(0), ["", "STRUCTURE quickest, "]);
        assert_eq!(lookup.arguments(1), ["", ""]);
    }

    #[test]
    fn what_is_there_is_left_alone_and_the_quickest_is_measured() {
        let is_met = |wanted: &str, shown| Wanted::of_name::<u32>(wanted).is_some_and(|w| w.is_met(shown));
        assert!(is_met("radix", "radix"));
        assert!(!is_met("radix", "linear"));
        // It would stay only as long as it is the quickest.
        assert!(!is_met("dir24_8", "dir24_8 quickest\ndir24_8 3.3 cycles"));
        assert!(!is_met("quickest", "dir24_8 quickest\n"));
    }
}
