//! Figures that are no ratio to testpmd's cycles: one quantity each, perhaps with a target.

use crate::figure::Spread;
use serde_json::{Map, Value, json};

/// What a value must be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Target {
    /// Not above.
    AtMost(f64),
    /// Not below.
    AtLeast(f64),
    /// Not below so many times that of another one.
    TimesOf(f64, &'static str),
}

/// One quantity of one thing.
#[derive(Clone, Debug)]
pub struct Measured {
    /// The group on the command line.
    pub group: &'static str,
    /// Where it stands in a sweep, as text and as a number.
    pub at: Option<(String, f64)>,
    /// What was measured.
    pub what: String,
    /// Of which program or structure.
    pub of: String,
    /// What it is counted in.
    pub unit: &'static str,
    /// The values, one a measurement.
    pub values: Vec<f64>,
    /// What it must be, judged by the median.
    pub target: Option<Target>,
    /// More to know of the arrangement: further keys of the line.
    pub arrangement: Map<String, Value>,
}

impl Target {
    fn met(self, value: f64) -> bool {
        match self {
            Target::AtMost(limit) => value <= limit,
            Target::AtLeast(limit) | Target::TimesOf(limit, _) => value >= limit,
        }
    }

    fn text(self) -> String {
        match self {
            Target::AtMost(limit) => format!("at most {limit}"),
            Target::AtLeast(limit) => format!("at least {limit}"),
            Target::TimesOf(limit, other) => format!("at least {limit} × {other}"),
        }
    }
}

impl Measured {
    fn met(&self) -> Option<bool> {
        let median = Spread::of(&self.values).map(|spread| spread.median);
        self.target.map(|target| median.is_some_and(|median| target.met(median)))
    }

    /// True if there is a target and it was missed.
    pub fn missed(&self) -> bool {
        self.met() == Some(false)
    }

    /// Group, place, quantity and subject in one word.
    fn name(&self) -> String {
        let at = self.at.as_ref().map_or("", |(text, _)| text);
        let all = [self.group, at, &self.of, &self.what].join(" ").to_lowercase();
        let words =
            all.split(|c: char| !c.is_ascii_alphanumeric() && c != '.').filter(|word| !word.is_empty());
        words.collect::<Vec<_>>().join("-")
    }

    /// One line of JSON.
    pub fn json(&self) -> Value {
        let mut line = self.arrangement.clone();
        let own = json!({
            "schema": "routebricks.bench-value/1",
            "name": self.name(),
            "group": self.group,
            "at": self.at.as_ref().map(|(text, _)| text),
            "at_value": self.at.as_ref().map(|(_, value)| value),
            "what": self.what,
            "of": self.of,
            "unit": self.unit,
            "measurements": self.values.len(),
            "value": Spread::of(&self.values).map(Spread::json),
            "target": self.target.map(Target::text),
            "met": self.met(),
        });
        if let Value::Object(own) = own {
            line.extend(own);
        }
        Value::Object(line)
    }

    /// One line of the table for people.
    pub fn row(&self) -> String {
        let value = Spread::of(&self.values).map_or("–".to_owned(), |s| {
            let digits = if s.median.abs() < 10.0 { 3 } else { 1 };
            format!("{:.digits$} ({:.digits$}–{:.digits$})", s.median, s.min, s.max)
        });
        let verdict = match (self.target, self.met()) {
            (Some(target), Some(true)) => format!("{}: met", target.text()),
            (Some(target), _) => format!("{}: MISSED", target.text()),
            (None, _) => String::new(),
        };
        let place = self.at.as_ref().map_or(self.group.to_owned(), |(at, _)| format!("{} {at}", self.group));
        let row =
            format!("{place:<18} {:<41} {:<60} {value:>26} {:<8} {verdict}", self.of, self.what, self.unit);
        row.trim_end().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(values: &[f64], target: Option<Target>) -> Measured {
        Measured {
            group: "lookups",
            at: None,
            what: "rate, uniform over 2^32".to_owned(),
            of: "Dir24_8".to_owned(),
            unit: "M/s",
            values: values.to_vec(),
            target,
            arrangement: Map::from_iter([("routes".to_owned(), json!(7))]),
        }
    }

    #[test]
    fn the_verdict_is_on_the_median() {
        let missed = |values: &[f64], target| measured(values, Some(target)).missed();
        assert!(
            !missed(&[1.0, 2.0, 9.0], Target::AtLeast(2.0)) && missed(&[1.0, 2.0, 9.0], Target::AtMost(1.9))
        );
        assert!(missed(&[1.0], Target::AtLeast(1.1)) && !missed(&[1.0], Target::AtMost(1.0)));
        assert!(missed(&[], Target::AtMost(1.0)), "nothing measured is nothing met");
        assert!(!measured(&[], None).missed());
    }

    #[test]
    fn what_is_written_down() {
        let line = measured(&[5.0, 1.0, 3.0], Some(Target::AtLeast(2.5))).json();
        assert_eq!(line["name"], "lookups-dir24-8-rate-uniform-over-2-32");
        assert_eq!(line["value"], json!({"min": 1.0, "median": 3.0, "max": 5.0}));
        assert_eq!(
            (&line["target"], &line["met"], &line["routes"]),
            (&json!("at least 2.5"), &json!(true), &json!(7))
        );
        assert_eq!((&line["at"], &line["measurements"]), (&Value::Null, &json!(3)));
        let row = measured(&[5.0], Some(Target::AtMost(2.0))).row();
        assert!(
            row.starts_with("lookups            Dir24_8  ") && row.ends_with("M/s      at most 2: MISSED"),
            "{row}"
        );
    }
}
