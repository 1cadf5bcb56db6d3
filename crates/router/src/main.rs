//! The `routebricks` command.
//!
//! ```text
//!   main ─► cli (arguments) ─┬► run        a router until it ends       worker (the loop) · api (looking in)
//!                            ├► check fmt graph                         config (from a text to a checked graph)
//!                            ├► show top   look into a running router  api
//!                            ├► cluster    several servers as one        cluster.toml · supervisor · nodes
//!                            ├► bench      becomes the bench program
//!                            └► elements table doctor
//! ```

// They panic if nobody reads any more; `io::say!` does not.
#![warn(clippy::print_stderr, clippy::print_stdout)]

mod api;
mod cli;
mod cluster;
mod config;
mod doctor;
mod linux;
mod markdown;
mod run;
mod toml_file;
mod words;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::main()
}
