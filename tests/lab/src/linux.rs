//! Linux as the router: the reference, and the proof that the checks are right.

use crate::Result;
use crate::checks::Check;
use crate::netns::Namespace;
use crate::router::Router;
use crate::table::RouteTable;
use crate::table6::Route6;
use crate::topology::{Hosts, Link, Topology};

/// The kernel's own forwarding in the router's namespace.
#[derive(Debug)]
pub struct LinuxRouter;

impl LinuxRouter {
    /// Gives the router's namespace addresses and routes and switches forwarding on.
    ///
    /// ICMP rate limits and redirects are off: limits would make counts depend on time, and redirects have a
    /// limit of their own that only exists once for the whole machine. With silent hosts the neighbours are
    /// permanent entries.
    pub fn start(topology: &Topology, table: &RouteTable, hosts: Hosts) -> Result<LinuxRouter> {
        let namespace = topology.router();
        namespace.set("net/ipv4/ip_forward", "1")?;
        switch_limits_off(namespace)?;
        let mut lines = String::new();
        for link in Link::all() {
            let interface = link.router_interface();
            lines.push_str(&format!("address add {}/24 dev {interface}\n", link.router()));
            if hosts == Hosts::Silent {
                for address in [link.host(), link.neighbour()] {
                    let mac = link.host_mac();
                    lines.push_str(&format!(
                        "neigh replace {address} lladdr {mac} nud permanent dev {interface}\n"
                    ));
                }
            }
        }
        for route in table.routes() {
            if let Some(gateway) = route.gateway {
                lines.push_str(&format!("route replace {} via {gateway}\n", route.prefix));
            }
        }
        namespace.ip(&lines)?;
        Ok(LinuxRouter)
    }
}

impl LinuxRouter {
    /// The same for IPv6: forwarding between the links of a topology with silent hosts, by these routes, with IPv6 MTUs.
    ///
    /// Redirects of IPv6 cannot be switched off. The addresses are those of `conf/ip6-router.click`; nothing is asked
    /// about them before they are used.
    pub fn start6(topology: &Topology, routes: &[Route6], mtus: &[u16]) -> Result<LinuxRouter> {
        let namespace = topology.router();
        // Of the types of message only those here are limited as a whole: none that exists.
        namespace.set("net/ipv6/icmp/ratelimit", "0")?;
        namespace.set("net/ipv6/icmp/ratemask", "255")?;
        let mut lines = String::new();
        for (link, mtu) in topology.links().zip(mtus) {
            let interface = link.router_interface();
            let set =
                |variable, value| namespace.set(&format!("net/ipv6/conf/{interface}/{variable}"), value);
            // No link-local address but ours.
            set("addr_gen_mode", "1")?;
            set("disable_ipv6", "0")?;
            set("mtu", &mtu.to_string())?;
            for address in [link.router6(), link.router_local()] {
                lines.push_str(&format!("address add {address}/64 dev {interface} nodad\n"));
            }
            for address in [link.host6(), link.neighbour6(), link.host_local()] {
                let mac = link.host_mac();
                lines.push_str(&format!(
                    "neigh replace {address} lladdr {mac} nud permanent dev {interface}\n"
                ));
            }
        }
        namespace.set("net/ipv6/conf/lo/disable_ipv6", "0")?;
        namespace.set("net/ipv6/conf/all/forwarding", "1")?;
        lines.extend(routes.iter().map(Route6::command));
        namespace.ip(&lines)?;
        Ok(LinuxRouter)
    }
}

fn switch_limits_off(namespace: &Namespace) -> Result<()> {
    namespace.set("net/ipv4/icmp_ratelimit", "0")?;
    namespace.set("net/ipv4/icmp_ratemask", "0")?;
    let interfaces = Link::all().map(Link::router_interface);
    for interface in ["all", "default"].iter().chain(&interfaces) {
        namespace.set(&format!("net/ipv4/conf/{interface}/send_redirects"), "0")?;
        namespace.set(&format!("net/ipv4/conf/{interface}/rp_filter"), "0")?;
    }
    Ok(())
}

impl Router for LinuxRouter {
    fn title(&self) -> &str {
        "Linux"
    }

    fn live_table(&mut self) -> Result<Option<String>> {
        Ok(None)
    }

    fn stop(&mut self) -> Result<Vec<Check>> {
        Ok(Vec::new())
    }
}
