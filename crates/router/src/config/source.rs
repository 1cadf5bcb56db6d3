//! Which configuration the user means, and its bytes.

use super::Reported;
use clap::Args;
use clap::error::ErrorKind;
use io::say;
use lang::{MAX_SOURCE_BYTES, library_candidates};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// A configuration on the command line.
#[derive(Clone, Debug, Args)]
pub struct ConfigArgs {
    /// Configuration file (- for standard input), and variables: values for its $NAMEs
    #[arg(value_name = "CONFIG | NAME=VALUE")]
    args: Vec<String>,

    /// The configuration itself, instead of a file
    #[arg(short = 'e', long = "expression", value_name = "TEXT")]
    text: Option<String>,
}

/// A configuration as read.
#[derive(Debug)]
pub struct Text {
    /// As messages call it.
    pub name: String,
    /// What it says.
    pub bytes: Vec<u8>,
    /// The file that it came from.
    pub file: Option<PathBuf>,
}

impl ConfigArgs {
    /// The variables, in the order in which they were given.
    pub fn variables(&self) -> Vec<(String, String)> {
        let owned = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
        self.args.iter().filter_map(|a| variable(a)).map(owned).collect()
    }

    /// Reads the configuration.
    ///
    /// # Errors
    /// If it cannot be read; the message was printed. Ends the program if it is not clear what is meant.
    pub fn read(&self) -> Result<Text, Reported> {
        let mut files = self.args.iter().filter(|a| variable(a).is_none());
        match (files.next(), files.next(), &self.text) {
            (None, _, Some(text)) => {
                Ok(Text { name: "config".to_owned(), bytes: text.clone().into_bytes(), file: None })
            }
            (Some(name), None, None) => read(name),
            (None, _, None) => usage(
                ErrorKind::MissingRequiredArgument,
                "no configuration: name a file, or give one with -e",
            ),
            (Some(first), Some(second), None) => {
                usage(ErrorKind::TooManyValues, &format!("two configurations: {first} and {second}"))
            }
            (Some(first), _, Some(_)) => {
                usage(ErrorKind::ArgumentConflict, &format!("two configurations: {first} and the text of -e"))
            }
        }
    }
}

/// Ends the program with a message on wrong usage (exit code 2).
fn usage(kind: ErrorKind, message: &str) -> ! {
    crate::cli::command().error(kind, message).exit()
}

/// `NAME=VALUE`, where the name could be one of a variable.
fn variable(argument: &str) -> Option<(&str, &str)> {
    let (name, value) = argument.split_once('=')?;
    let valid = !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    valid.then_some((name, value))
}

fn read(name: &str) -> Result<Text, Reported> {
    let (shown, bytes) = match name {
        "-" => ("<stdin>", bytes(std::io::stdin().lock())),
        file => (file, File::open(file).and_then(bytes)),
    };
    match bytes {
        Ok(bytes) => {
            let file = (name != "-").then(|| PathBuf::from(name));
            Ok(Text { name: shown.to_owned(), bytes, file })
        }
        Err(error) => {
            say!("error: cannot read {shown}: {}", reason(&error));
            Err(Reported)
        }
    }
}

/// One byte more than the parser takes is enough for it to say that the text is too long.
fn bytes(source: impl Read) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    source.take(MAX_SOURCE_BYTES as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// What the system says, without its error number.
pub fn reason(error: &std::io::Error) -> String {
    match error.raw_os_error() {
        Some(number) => nix::errno::Errno::from_raw(number).desc().to_owned(),
        None => error.to_string(),
    }
}

/// Finds and reads a library: beside the requiring file, then along `CLICKPATH`.
pub fn load_library(name: &str, from: &str) -> Result<(String, Vec<u8>), String> {
    let path = std::env::var_os("CLICKPATH").unwrap_or_default();
    let clickpath: Vec<PathBuf> =
        std::env::split_paths(&path).filter(|p| !p.as_os_str().is_empty()).collect();
    for candidate in library_candidates(name, from, &clickpath) {
        match File::open(&candidate).and_then(bytes) {
            Ok(bytes) => return Ok((candidate.to_string_lossy().into_owned(), bytes)),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
            Err(e) => return Err(format!("{}: {}", candidate.display(), reason(&e))),
        }
    }
    let beside = Path::new(from).parent().filter(|p| !p.as_os_str().is_empty());
    let beside = beside.map_or("the current directory".to_owned(), |p| p.display().to_string());
    Err(format!("not in {beside}, nor along CLICKPATH"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_told_from_files() {
        assert_eq!(variable("A_1=x=y"), Some(("A_1", "x=y")));
        assert_eq!(variable("A="), Some(("A", "")));
        for file in ["conf/a=b.click", "=x", "a.click", "-", ""] {
            assert_eq!(variable(file), None, "{file}");
        }
    }
}
