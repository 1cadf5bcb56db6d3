//! Elements that choose a way by what is in a packet or noted on it.

mod byte_pattern;
mod byte_program;
mod check_length;
mod check_paint;
mod classifier;
pub mod filter;
mod ip_classifier;
mod ip_filter;
mod paint_switch;
mod paint_tee;
mod round_robin_switch;
mod static_switch;
mod switch;

use graph::{AnyClass, of};

pub use check_length::CheckLength;
pub use check_paint::CheckPaint;
pub use classifier::Classifier;
pub use ip_classifier::IpClassifier;
pub use ip_filter::IpFilter;
pub use paint_switch::PaintSwitch;
pub use paint_tee::PaintTee;
pub use round_robin_switch::RoundRobinSwitch;
pub use static_switch::StaticSwitch;
pub use switch::Switch;

/// The classes of this layer.
pub(crate) static CLASSES: &[&dyn AnyClass] = &[
    &of::<CheckLength>(),
    &of::<CheckPaint>(),
    &of::<Classifier>(),
    &of::<IpClassifier>(),
    &of::<IpFilter>(),
    &of::<PaintSwitch>(),
    &of::<PaintTee>(),
    &of::<RoundRobinSwitch>(),
    &of::<StaticSwitch>(),
    &of::<Switch>(),
];
