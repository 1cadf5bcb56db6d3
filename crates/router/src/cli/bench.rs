//! `bench`: a program of its own, which is started in place of this one.

use super::{Done, failed};
use clap::Args;
use std::env;
use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What `cargo build --package bench` makes.
const PROGRAM: &str = "routebricks-bench";

/// Arguments of `bench`.
#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
pub struct BenchArgs {
    /// Figures to measure, `ndr`, `report` or `pins`, and options; see `routebricks bench --help`
    #[arg(value_name = "FIGURE", trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<OsString>,
}

/// Becomes that program; it measures the router that it was started by, unless it is told another one.
///
/// # Errors
/// If it is not there, or does not start: that was printed.
pub fn bench(args: &BenchArgs) -> Done {
    let own = env::current_exe().unwrap_or_default();
    let here = env::current_dir().unwrap_or_default();
    let Some(program) = find(&own, &here, &env::var_os("PATH").unwrap_or_default()) else {
        return Err(failed(format!(
            "no {PROGRAM} beside {}, in target/release of a checkout of RouteBricks around {}, or on PATH; `cargo build \
             --release --package bench` in a checkout makes it, and `make bench` builds all that it needs and runs it",
            own.display(),
            here.display()
        )));
    };
    let mut command = Command::new(&program);
    if env::var_os("ROUTEBRICKS").is_none() {
        command.env("ROUTEBRICKS", &own);
    }
    let error = command.args(figures(&args.words)).exec();
    Err(failed(format!("cannot start {}: {error}", program.display())))
}

/// The figures as the program takes them: without a name it measures all.
fn figures(words: &[OsString]) -> &[OsString] {
    match words {
        [first, rest @ ..] if first == "all" => rest,
        all => all,
    }
}

/// Beside the router, in a checkout around this folder, on the path.
fn find(own: &Path, here: &Path, path: &OsStr) -> Option<PathBuf> {
    let beside = own.parent().map(Path::to_path_buf);
    let checkout = here.ancestors().find(|folder| folder.join("bench/Cargo.toml").is_file());
    let built = checkout.map(|folder| folder.join("target/release"));
    let folders = beside.into_iter().chain(built).chain(env::split_paths(path));
    folders.map(|folder| folder.join(PROGRAM)).find(|program| program.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn beside_the_router_then_in_the_checkout_then_on_the_path() {
        let root = tempfile::tempdir().unwrap();
        let folder = |name: &str| {
            let folder = root.path().join(name);
            fs::create_dir_all(&folder).unwrap();
            folder
        };
        let (own, on_path) = (folder("installed").join("routebricks"), folder("path"));
        let (built, inside) = (folder("checkout/target/release"), folder("checkout/docs/decisions"));
        let path = env::join_paths([folder("empty"), on_path.clone()]).unwrap();
        let found = || find(&own, &inside, &path);
        assert_eq!(found(), None);
        for folder in [&on_path, &built] {
            fs::write(folder.join(PROGRAM), "").unwrap();
        }
        assert_eq!(found(), Some(on_path.join(PROGRAM)), "what is around is no checkout yet");
        folder("checkout/bench");
        fs::write(root.path().join("checkout/bench/Cargo.toml"), "").unwrap();
        assert_eq!(found(), Some(built.join(PROGRAM)));
        fs::write(own.with_file_name(PROGRAM), "").unwrap();
        assert_eq!(found(), Some(own.with_file_name(PROGRAM)));
    }

    #[test]
    fn all_is_no_name() {
        let words = |text: &str| text.split_whitespace().map(OsString::from).collect::<Vec<_>>();
        assert_eq!(figures(&words("all --full")), words("--full"));
        assert_eq!(figures(&words("io all")), words("io all"));
        assert_eq!(figures(&[]), words(""));
    }
}
