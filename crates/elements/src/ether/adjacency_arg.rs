//! Arguments of `AdjacencyRewrite` and `IP6AdjacencyRewrite`: next hops, and what stands behind them.

use super::rewrite::Network;
use crate::ip::Gateway;
use fib::{Adjacency, NextHop};
use graph::{ArgError, FromArg, Span, Text};
use lang::args::Words;
use packet::wire::ethernet::{self, Mac};
use std::marker::PhantomData;

/// `port gateway|-`, and addresses behind it; or `group port gateway|-` and members.
pub(super) struct AdjacencyArg<N> {
    pub hop: NextHop,
    pub to: Target,
    /// Where the port stands.
    pub port_span: Span,
    network: PhantomData<N>,
}

/// What stands behind the next hop.
pub(super) enum Target {
    /// Source, destination.
    Neighbour(Mac, Mac),
    /// With weights.
    Group(Vec<(NextHop, u32)>),
}

/// `port gateway|-`.
fn take_hop<N: Network>(words: &mut Words) -> Result<NextHop, ArgError> {
    let port: u16 = words.take("port")?;
    let gateway = words.take::<Gateway<N::Address>>("gateway")?.0;
    Ok(NextHop { gateway, port: port.into() })
}

impl<N: Network> AdjacencyArg<N> {
    /// What frames to this neighbour get; `tagged`: the port below its VLAN.
    pub fn adjacency(&self, source: Mac, destination: Mac, tagged: Option<u16>) -> Option<Adjacency> {
        if let Some(port) = tagged {
            let interface = u16::try_from(self.hop.port).ok()?;
            return Some(Adjacency::tagged(destination, source, interface, port));
        }
        let header = ethernet::Header { destination, source, ethertype: N::ETHERTYPE }.bytes();
        Some(Adjacency { header, output: u16::try_from(self.hop.port).ok()? })
    }

    /// An argument, or the value of the handler `set`.
    pub fn from_words(mut words: Words) -> Result<AdjacencyArg<N>, ArgError> {
        let is_group = words.peek().is_some_and(|word| word.text == "group");
        if is_group {
            words.take::<String>("group")?;
        }
        let port_span = words.peek().map(|word| word.span).unwrap_or_default();
        let hop = take_hop::<N>(&mut words)?;
        let to = if is_group {
            let mut members = Vec::new();
            while members.is_empty() || words.peek().is_some() {
                members.push((take_hop::<N>(&mut words)?, words.take("weight")?));
            }
            Target::Group(members)
        } else {
            let bound = u32::from(Adjacency::TAGGED);
            if hop.port >= bound {
                return Err(ArgError::new(format!("port: must be below {bound}")));
            }
            Target::Neighbour(words.take("source")?, words.take("destination")?)
        };
        words.end()?;
        Ok(AdjacencyArg { hop, to, port_span, network: PhantomData })
    }

    /// Refuses ports that are not outputs.
    pub fn fits(&self, outputs: usize) -> Result<(), String> {
        let fits = |hop: &NextHop| match (hop.port as usize) < outputs {
            true => Ok(()),
            false => Err(format!("port: no output {}, there are {outputs}", hop.port)),
        };
        match &self.to {
            Target::Neighbour(..) => fits(&self.hop),
            Target::Group(members) => members.iter().try_for_each(|(hop, _)| fits(hop)),
        }
    }
}

impl<N: Network> FromArg for AdjacencyArg<N> {
    fn from_arg(arg: &Text) -> Result<AdjacencyArg<N>, ArgError> {
        AdjacencyArg::from_words(Words::new(arg))
    }

    fn placeholder() -> AdjacencyArg<N> {
        let hop = NextHop { gateway: None, port: 0 };
        AdjacencyArg { hop, to: Target::Group(Vec::new()), port_span: Span::default(), network: PhantomData }
    }
}

/// `port gateway|-` alone.
pub(super) fn read_hop<N: Network>(text: &str) -> Result<NextHop, String> {
    let text = Text::verbatim(text.trim(), Span::default());
    let mut words = Words::new(&text);
    take_hop::<N>(&mut words).and_then(|hop| words.end().map(|()| hop)).map_err(|e| e.message)
}

/// Source and destination.
pub(super) fn addresses(adjacency: &Adjacency) -> String {
    ethernet::Header::parse(&adjacency.header)
        .map(|h| format!("{} {}", ethernet::text(&h.source), ethernet::text(&h.destination)))
        .unwrap_or_default()
}

/// `port gateway|-`.
pub(super) fn hop_text(hop: &NextHop) -> String {
    format!("{} {}", hop.widened().port, hop.gateway.map_or("-".to_owned(), |g| g.to_string()))
}
