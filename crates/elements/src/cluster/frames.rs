//! What frames for lines of other nodes begin with, as adjacencies say it: in place of the header of their neighbour, which
//! the output node puts there, that of the cluster on the direct way. Who makes a frame for its next hop then has nearly
//! always made the one that crosses the cluster.

use super::settings::Settings;
use cluster::header::{ADJACENCIES, LEN, Phase, Template};
use fib::Adjacency;
use packet::wire::ethernet::HEADER_LEN;

/// For [`fib::Adjacencies::set_framing`].
pub fn framing(
    settings: &Settings,
) -> impl Fn(u32, &Adjacency) -> Option<[u8; HEADER_LEN]> + Send + Sync + use<> {
    let template = |(node, port)| {
        let header = settings.header(node, port, Phase::ToOutput);
        Template::new(&header).ok().filter(|_| node != settings.me)
    };
    let lines = (0..).map_while(|line| settings.line(line)).take(settings.all_lines());
    let templates: Box<[Option<Template>]> = lines.map(template).collect();
    move |number, adjacency| {
        let template = templates.get(usize::from(adjacency.output))?.as_ref()?;
        let mut header = adjacency.header;
        header[..LEN].copy_from_slice(&template.bytes(number, 0));
        (number < ADJACENCIES).then_some(header)
    }
}
