//! `top`: where a running router spends its time, again and again.

mod rates;

use super::which::Which;
use super::{Done, Output, columns, failed, json_rows};
use crate::api::client::Client;
use clap::Args;
use rates::{HEADINGS, Look, Rate, Totals};
use signal_hook::consts::{SIGINT, SIGTERM};
use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Arguments of `top`.
#[derive(Debug, Args)]
pub struct TopArgs {
    /// Seconds from one picture to the next
    #[arg(long, value_name = "S", default_value = "1", value_parser = interval)]
    interval: Duration,

    /// One picture, of one interval
    #[arg(long)]
    once: bool,

    /// Print JSON, a table for each interval
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    router: Which,
}

fn interval(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().filter(|s| (0.1..=3600.0).contains(s));
    seconds.map(Duration::from_secs_f64).ok_or_else(|| "from 0.1 to 3600".to_owned())
}

/// Shows what the router does until somebody interrupts, or the router ends.
pub fn top(args: &TopArgs) -> Done {
    let client = args.router.client()?;
    let interrupted = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        // Without a handler the signal simply ends us.
        let _ = signal_hook::flag::register(signal, interrupted.clone());
    }
    let live = !args.once && !args.json && std::io::stdout().is_terminal();
    let (mut before, mut then) = (look(&client).map_err(failed)?, Instant::now());
    let screen = live.then(Screen::take);
    let end = loop {
        if !sleep(then + args.interval, &interrupted) {
            break Ok(());
        }
        let now = match look(&client) {
            Ok(now) => now,
            Err(e) => break Err(e),
        };
        let passed = then.elapsed();
        then += passed;
        let rates = rates::rates(&before, &now, passed);
        let mut out = Output::stdout();
        if args.json {
            let tsc = epoch::tsc_hz() as f64;
            let rows: Vec<_> = rates.iter().map(|rate| rate.json(tsc)).collect();
            out.text(&json_rows("top", &rows));
        } else {
            let text = picture(&rates, rates::totals(&before, &now, passed));
            out.text(&screen.as_ref().map_or(text.clone(), |_| Screen::redraw(&text, height())));
        }
        let open = out.is_open();
        out.done()?;
        if args.once || !open {
            break Ok(());
        }
        before = now;
    };
    // The terminal is as it was before an error is printed on it.
    drop(screen);
    end.map_err(failed)
}

fn look(client: &Client) -> Result<Look, String> {
    Ok(Look {
        runtime: client.table("/api/runtime")?,
        interfaces: client.table("/api/interfaces")?,
        drops: client.table("/api/drops")?,
    })
}

/// False if somebody interrupted.
fn sleep(until: Instant, interrupted: &AtomicBool) -> bool {
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if interrupted.load(Ordering::Relaxed) || left.is_zero() {
            return !interrupted.load(Ordering::Relaxed);
        }
        std::thread::sleep(left.min(Duration::from_millis(50)));
    }
}

/// Two lines about the whole router, and a line for each element.
fn picture(rates: &[Rate], totals: Totals) -> String {
    let tsc = epoch::tsc_hz() as f64;
    let share = |cycles: fn(&Rate) -> f64| rates.iter().map(cycles).sum::<f64>() / tsc * 100.0;
    let lines: Vec<Vec<String>> = rates.iter().map(|rate| rate.cells(tsc)).collect();
    format!(
        "packets/s: {:.0} received, {:.0} sent, {:.0} lost\n\
         100 % = one core: {:.1} % at work, {:.1} % in empty polls\n\n{}",
        totals.received,
        totals.sent,
        totals.lost,
        share(|rate| rate.cycles),
        share(|rate| rate.empty_cycles),
        columns(&HEADINGS, &lines)
    )
}

/// Lines of the terminal.
fn height() -> usize {
    terminal_size::terminal_size().map_or(24, |(_, lines)| lines.0.into())
}

/// The terminal's second screen, which hides the first one until this is dropped.
struct Screen;

impl Screen {
    fn take() -> Screen {
        print_now("\x1b[?1049h\x1b[?25l");
        Screen
    }

    /// Text that takes the place of the last one, as far as it fits: long lines are the terminal's business.
    fn redraw(text: &str, height: usize) -> String {
        let lines: Vec<&str> = text.lines().take(height.max(1)).collect();
        // Without line break behind the last line, or the screen would move up.
        format!("\x1b[H\x1b[?7l{}\x1b[K\x1b[J\x1b[?7h", lines.join("\x1b[K\r\n"))
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        print_now("\x1b[?25h\x1b[?1049l");
    }
}

fn print_now(text: &str) {
    let mut out = Output::stdout();
    out.text(text);
    // A terminal that is gone needs no more.
    let _ = out.is_open();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_takes_the_place_of_the_last_one_and_fits() {
        assert_eq!(
            Screen::redraw("a\nb\nc\n", 2),
            "\x1b[H\x1b[?7la\x1b[K\r\nb\x1b[K\x1b[J\x1b[?7h",
            "two lines, and no third"
        );
    }

    #[test]
    fn intervals() {
        assert_eq!(interval("0.5"), Ok(Duration::from_millis(500)));
        for text in ["0", "-1", "NaN", "inf", "x", "3601"] {
            assert!(interval(text).is_err(), "{text}");
        }
    }

    #[test]
    fn sleep_ends_when_told() {
        assert!(sleep(Instant::now(), &AtomicBool::new(false)));
        assert!(!sleep(Instant::now() + Duration::from_secs(60), &AtomicBool::new(true)));
    }
}
