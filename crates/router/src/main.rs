//! The `routebricks` command.
mod run;

fn main() -> std::process::ExitCode {
    let mut args = std::env::args().skip(1);
    let mut options = run::RunOptions { workers: 1, burst: 32, cpus: vec![], simulated: false, eal: vec![], read: vec![] };
    let mut text = String::new();
    let _ = args.next();
    while let Some(a) = args.next() {
        match a.as_str() {
            "-e" => text = args.next().unwrap_or_default(),
            "-j" => options.workers = args.next().and_then(|n| n.parse().ok()).unwrap_or(1),
            "--burst" => options.burst = args.next().and_then(|n| n.parse().ok()).unwrap_or(1),
            "--read" => options.read.push(args.next().unwrap_or_default()),
            "--" => options.eal = args.by_ref().collect(),
            f => text = std::fs::read_to_string(f).unwrap_or_default(),
        }
    }
    let (flat, sources) = match elements::harness::flatten(&text) {
        Ok(x) => x,
        Err(e) => {
            eprint!("{e}");
            return 1.into();
        }
    };
    match run::run(flat, &sources, &options, |_| Ok(())) {
        Ok(()) => 0.into(),
        Err(_) => 1.into(),
    }
}
