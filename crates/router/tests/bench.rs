//! `bench`, which starts another program.
#![allow(clippy::unwrap_used, reason = "tests may panic")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

/// Runs a copy of the router that stands in a folder of its own; exit code, standard output, standard error.
fn bench(own: &Path, path: &Path) -> (i32, String, String) {
    let mut command = Command::new(own.join("routebricks"));
    command
        .args(["bench", "ndr", "--help", "-v"])
        .current_dir(own)
        .env("PATH", path)
        .env_remove("ROUTEBRICKS");
    let output = command.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

#[test]
fn it_hands_over_its_arguments_or_says_how_to_get_the_program() {
    // On the file system of the router, so that it need not be copied; away from any checkout's root.
    let folder =
        tempfile::tempdir_in(Path::new(env!("CARGO_BIN_EXE_routebricks")).parent().unwrap()).unwrap();
    let [own, path] = ["own", "path"].map(|name| folder.path().join(name));
    fs::create_dir(&own).unwrap();
    fs::create_dir(&path).unwrap();
    fs::hard_link(env!("CARGO_BIN_EXE_routebricks"), own.join("routebricks")).unwrap();
    let program = path.join("routebricks-bench");
    fs::write(&program, "#!/bin/sh\necho \"$@\" by \"$ROUTEBRICKS\"\nexit 7\n").unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    fs::rename(&program, own.join("routebricks-bench")).unwrap();
    let said = format!("ndr --help -v by {}\n", own.join("routebricks").display());
    assert_eq!(bench(&own, &path), (7, said, String::new()));

    fs::remove_file(own.join("routebricks-bench")).unwrap();
    if folder.path().ancestors().any(|folder| folder.join("target/release/routebricks-bench").is_file()) {
        println!("skipped: this checkout has the program");
        return;
    }
    let (code, out, error) = bench(&own, &path);
    assert_eq!((code, out), (1, String::new()));
    let start = format!("error: no routebricks-bench beside {}, ", own.join("routebricks").display());
    assert!(
        error.starts_with(&start) && error.contains("`cargo build --release --package bench`"),
        "{error}"
    );
}
