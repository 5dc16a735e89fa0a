//! Which addresses the bus listens on: without certificates only where nobody but this machine and its containers comes.
//!
//! What is around is read by [`Surroundings::look`]; the choice itself is a function of that and the settings.

#[cfg(target_os = "linux")]
mod linux;
#[cfg(test)]
mod tests;

use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;

use crate::config::{Bus, ConfigError, Security};

/// An address of this machine and what it belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    pub name: String,
    pub address: IpAddr,
    /// Whether something beyond this machine is known to be at the other end: hardware, a tunnel, a share of a card.
    pub leads_out: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Surroundings {
    pub interfaces: Vec<Interface>,
    pub in_container: bool,
}

/// Where to listen, and what an unspecified address did not include.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chosen {
    pub listen: Vec<SocketAddr>,
    pub left_out: Vec<Interface>,
    /// What is wrong with the interfaces that the settings name.
    pub unknown: Option<String>,
}

/// An unspecified address is narrowed to loopback and container networks; any other must be one of them.
pub fn choose(bus: &Bus, around: &Surroundings) -> Result<Chosen, ConfigError> {
    let mut chosen = Chosen::default();
    for asked in &bus.listen {
        match bus.security {
            Security::MutualTls => chosen.add(*asked),
            Security::DockerNetworkOnly if asked.ip().is_unspecified() => {
                chosen.widen(*asked, bus, around);
            }
            Security::DockerNetworkOnly => {
                let address = asked.ip().to_canonical();
                if !address.is_loopback() && !around.is_container_network(address, bus) {
                    return Err(ConfigError::UnsafeBusAddress { listen: *asked });
                }
                chosen.add(*asked);
            }
        }
    }
    chosen.unknown = around.unknown(&bus.interfaces);
    Ok(chosen)
}

impl Chosen {
    fn add(&mut self, address: SocketAddr) {
        if !self.listen.contains(&address) {
            self.listen.push(address);
        }
    }

    /// `0.0.0.0` means addresses of IPv4, `::` of both.
    fn widen(&mut self, asked: SocketAddr, bus: &Bus, around: &Surroundings) {
        self.add(SocketAddr::new(Ipv4Addr::LOCALHOST.into(), asked.port()));
        for interface in &around.interfaces {
            let address = interface.address;
            if (asked.is_ipv4() && address.is_ipv6()) || is_link_local(address) {
                continue;
            }
            if address.is_loopback() || around.admits(interface, bus) {
                self.add(SocketAddr::new(address, asked.port()));
            } else if !self.left_out.contains(interface) {
                self.left_out.push(interface.clone());
            }
        }
    }
}

impl Surroundings {
    /// What is around this process. Where interfaces cannot be listed there are none, which leaves loopback.
    pub fn look() -> Surroundings {
        let interfaces = list().unwrap_or_else(|error| {
            tracing::warn!("the network interfaces cannot be listed: {error}");
            Vec::new()
        });
        Surroundings {
            interfaces,
            in_container: in_container(Path::new("/")),
        }
    }

    fn is_container_network(&self, address: IpAddr, bus: &Bus) -> bool {
        self.interfaces
            .iter()
            .any(|interface| interface.address == address && self.admits(interface, bus))
    }

    /// A sentence on those of the named interfaces that are not there.
    fn unknown(&self, named: &[String]) -> Option<String> {
        let mut known: Vec<&str> = self.interfaces.iter().map(|it| it.name.as_str()).collect();
        known.dedup();
        let unknown = named.iter().filter(|name| !known.contains(&name.as_str()));
        let unknown: Vec<&str> = unknown.map(String::as_str).collect();
        // Where interfaces cannot be listed, that was said.
        (!unknown.is_empty() && !known.is_empty()).then(|| {
            format!(
                "agent_bus.interfaces: this machine has no interface {} with an address; it has {}",
                unknown.join(", "),
                known.join(", ")
            )
        })
    }

    fn admits(&self, interface: &Interface, bus: &Bus) -> bool {
        if bus.interfaces.contains(&interface.name) {
            return true;
        }
        !interface.leads_out && (is_container_bridge(&interface.name) || self.has_own_network())
    }

    /// A container that sees bridges of other containers is on the network of its host.
    fn has_own_network(&self) -> bool {
        let bridged = |interface: &Interface| is_container_bridge(&interface.name);
        self.in_container && !self.interfaces.iter().any(bridged)
    }
}

fn is_container_bridge(name: &str) -> bool {
    name == "docker0" || name.starts_with("br-")
}

/// Such an address means nothing without its interface, and containers are not given it to connect to.
fn is_link_local(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    }
}

/// By the marks that container engines leave, or by what the first process belongs to.
fn in_container(root: &Path) -> bool {
    let marked = [".dockerenv", "run/.containerenv"];
    if marked.iter().any(|mark| root.join(mark).exists()) {
        return true;
    }
    let groups = fs::read_to_string(root.join("proc/1/cgroup")).unwrap_or_default();
    let words = ["docker", "kubepods", "containerd", "libpod"];
    words.iter().any(|word| groups.contains(word))
}

#[cfg(target_os = "linux")]
use linux::list;

/// Elsewhere containers run in a machine of their own, and reach this one by its loopback address.
#[cfg(not(target_os = "linux"))]
fn list() -> std::io::Result<Vec<Interface>> {
    Ok(Vec::new())
}
