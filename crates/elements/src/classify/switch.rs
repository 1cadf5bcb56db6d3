//! `Switch`: sends packets to one output, which can be changed while it runs.
//!
//! # Arguments
//! - `OUTPUT`: the output; -1 = packets are lost. Default 0.
//!
//! # Ports
//! One push input, any number of push outputs.
//!
//! # Handlers
//! | name | | |
//! |---|---|---|
//! | `switch` | rw | see `OUTPUT` |
//!
//! # Losses
//! - `off`: the output is -1.
//!
//! # Example
//! ```click
//! InfiniteSource(LIMIT 5) -> s :: Switch(1);
//! s[0] -> a :: Counter -> Discard;
//! s[1] -> b :: Counter -> Discard;
//! // a.count = 0
//! // b.count = 5
//! // s.switch = 1
//! ```

use graph::{Args, Class, ConfigErrors, Configure, Cx, Element, Handlers, LocalCx, Loss, Out, Spec, value};
use packet::Batch;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

const OFF: Loss = Loss(0);

/// See the module.
#[derive(Debug)]
pub struct Switch {
    /// An existing output or -1.
    output: AtomicI64,
    outputs: usize,
}

/// One worker's part of [`Switch`].
#[derive(Debug)]
pub struct LocalSwitch {
    shared: Arc<Switch>,
}

/// Makes sure that the output exists or is -1.
fn check(output: i64, outputs: usize) -> Result<(), String> {
    match usize::try_from(output) {
        Ok(n) if n >= outputs => Err(format!("there is no output {output}: there are {outputs}")),
        Err(_) if output != -1 => Err(format!("there is no output {output}; -1 loses packets")),
        _ => Ok(()),
    }
}

impl Class for Switch {
    const SPEC: Spec = Spec { losses: &["off"], ..Spec::new("Switch", "1/-", "h/h") };
    type Local = LocalSwitch;

    fn configure(args: &mut Args, cx: &Configure<'_>) -> Result<Switch, ConfigErrors> {
        let output = args.optional("OUTPUT", 0);
        if let Err(e) = check(output, cx.outputs) {
            args.error("OUTPUT", e);
        }
        args.finish()?;
        Ok(Switch { output: AtomicI64::new(output), outputs: cx.outputs })
    }

    fn local(self: &Arc<Self>, _: &LocalCx) -> LocalSwitch {
        LocalSwitch { shared: self.clone() }
    }

    fn handlers(h: &mut Handlers<Switch>) {
        h.read("switch", |s| s.output.load(Relaxed).to_string());
        h.write("switch", |s, text, _| {
            let output = value(text)?;
            check(output, s.outputs)?;
            s.output.store(output, Relaxed);
            Ok(())
        });
    }
}

impl Element for LocalSwitch {
    fn push(&mut self, _: usize, batch: Batch, _: &Cx<'_>, out: &mut Out<'_>) {
        match usize::try_from(self.shared.output.load(Relaxed)) {
            Ok(output) => out.emit(output, batch),
            Err(_) => out.lose_all(batch, OFF),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Frame, Lab, errors};

    #[test]
    fn the_output_can_be_changed() {
        let mut lab = Lab::new("f :: Feed -> s :: Switch; s[0] -> a :: Keep; s[1] -> b :: Keep;");
        for (output, byte) in [("0", 1), ("1", 2), ("-1", 3)] {
            lab.0.write("s.switch", output).unwrap();
            assert_eq!(lab.0.read("s.switch"), output);
            lab.at(0, "f", &Frame::new(&[byte]));
            lab.run();
        }
        assert_eq!((lab.kept_hex("a"), lab.kept_hex("b")), (vec!["01".into()], vec!["02".into()]));
        assert_eq!(lab.losses(), ["s.off = 1"]);
        for (output, error) in
            [("2", "there is no output 2: there are 2"), ("-2", "there is no output -2; -1 loses packets")]
        {
            assert_eq!(lab.0.write("s.switch", output), Err(error.to_owned()));
        }
        assert_eq!(lab.0.read("s.switch"), "-1");
        lab.end();
        assert!(
            errors("Idle -> Switch(1) -> Discard;").contains("OUTPUT: there is no output 1: there are 1")
        );
    }
}
