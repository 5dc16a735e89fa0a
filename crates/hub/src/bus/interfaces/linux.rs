//! The kernel's own list of addresses, asked for and read as bytes (rtnetlink(7)), and what `/sys` knows of interfaces.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;
use std::time::Duration;
use std::{fs, io};

use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netdevice, recv, send,
    socket_with,
};

use super::Interface;

/// Addresses of this machine that are looked at; the others are as if they were not there.
const INTERFACES_MAX: usize = 1024;
/// How far below an interface its hardware is looked for: an address on a bridge over a bond over a card.
const DEPTH_MAX: u32 = 4;
const RTM_NEWADDR: u16 = 20;
const RTM_GETADDR: u16 = 22;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const NLM_F_REQUEST_DUMP: u16 = 0x301;
const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;
const HEADER: usize = 16;
const ADDRESS_HEADER: usize = 8;
const ATTRIBUTE_HEADER: usize = 4;
/// The kernel fills at most this much at a time.
const BUFFER_BYTES: usize = 64 * 1024;
/// An answer in more pieces than this is none.
const PIECES_MAX: usize = 256;
const ANSWER_WITHIN: Duration = Duration::from_secs(2);

pub fn list() -> io::Result<Vec<Interface>> {
    let classes = Path::new("/sys/class/net");
    let found = addresses()?.into_iter().take(INTERFACES_MAX);
    Ok(found
        .map(|(name, address)| Interface {
            leads_out: leads_out(classes, &name, 0),
            name,
            address,
        })
        .collect())
}

/// Whether hardware, a tunnel or a share of a card is at or below this interface.
///
/// A pair of virtual ends, which is what containers are given, has neither a device nor a type.
pub fn leads_out(classes: &Path, name: &str, depth: u32) -> bool {
    let dir = classes.join(name);
    if depth > DEPTH_MAX || dir.join("device").exists() || dir.join("tun_flags").exists() {
        return true;
    }
    let about = fs::read_to_string(dir.join("uevent")).unwrap_or_default();
    let kind = about.lines().find_map(|line| line.strip_prefix("DEVTYPE="));
    if kind.is_some_and(|kind| kind != "bridge") {
        return true;
    }
    let Ok(entries) = fs::read_dir(&dir) else {
        return false;
    };
    entries.flatten().any(|entry| {
        let name = entry.file_name();
        let below = name.to_str().and_then(|name| name.strip_prefix("lower_"));
        below.is_some_and(|below| leads_out(classes, below, depth + 1))
    })
}

fn addresses() -> io::Result<Vec<(String, IpAddr)>> {
    let kind = SocketType::RAW;
    let socket = socket_with(AddressFamily::NETLINK, kind, SocketFlags::CLOEXEC, None)?;
    set_socket_timeout(&socket, Timeout::Recv, Some(ANSWER_WITHIN))?;
    send(&socket, &request(), SendFlags::empty())?;
    let mut buffer = vec![0; BUFFER_BYTES];
    let mut found = Vec::new();
    for _ in 0..PIECES_MAX {
        let (length, _) = recv(&socket, buffer.as_mut_slice(), RecvFlags::empty())?;
        if !take_in(&buffer[..length.min(BUFFER_BYTES)], &mut found)? {
            break;
        }
    }
    // An interface that went away in the meantime has no name any more.
    let named = found.into_iter().filter_map(|(index, address)| {
        let name = netdevice::index_to_name(&socket, index).ok()?;
        Some((name, address))
    });
    Ok(named.collect())
}

fn request() -> Vec<u8> {
    let length = HEADER + ADDRESS_HEADER;
    let mut bytes = u32::try_from(length)
        .expect("24 fits")
        .to_ne_bytes()
        .to_vec();
    bytes.extend(RTM_GETADDR.to_ne_bytes());
    bytes.extend(NLM_F_REQUEST_DUMP.to_ne_bytes());
    bytes.resize(length, 0);
    bytes
}

/// Whether there is more to come.
pub fn take_in(mut bytes: &[u8], found: &mut Vec<(u32, IpAddr)>) -> io::Result<bool> {
    while let Some((length, kind)) = number32(bytes, 0).zip(number16(bytes, 4)) {
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        let Some(body) = bytes.get(HEADER..length) else {
            break;
        };
        match kind {
            NLMSG_DONE => return Ok(false),
            NLMSG_ERROR => return Err(io::Error::other("the kernel refuses to list them")),
            RTM_NEWADDR => found.extend(address(body)),
            _ => {}
        }
        bytes = bytes.get(aligned(length)..).unwrap_or_default();
    }
    Ok(true)
}

/// The interface's number and its own address; on a line between two points the other attribute is the far end's.
fn address(body: &[u8]) -> Option<(u32, IpAddr)> {
    let index = number32(body, 4)?;
    let mut rest = body.get(ADDRESS_HEADER..)?;
    let (mut own, mut any) = (None, None);
    while let Some((length, kind)) = number16(rest, 0).zip(number16(rest, 2)) {
        let length = usize::from(length);
        let Some(value) = rest.get(ATTRIBUTE_HEADER..length) else {
            break;
        };
        match kind {
            IFA_LOCAL => own = ip(value),
            IFA_ADDRESS => any = ip(value),
            _ => {}
        }
        rest = rest.get(aligned(length)..).unwrap_or_default();
    }
    Some((index, own.or(any)?))
}

fn ip(value: &[u8]) -> Option<IpAddr> {
    let v4 = <[u8; 4]>::try_from(value).map(|octets| IpAddr::V4(Ipv4Addr::from(octets)));
    let v6 = <[u8; 16]>::try_from(value).map(|octets| IpAddr::V6(Ipv6Addr::from(octets)));
    v4.or(v6).ok()
}

fn aligned(length: usize) -> usize {
    length.saturating_add(3) & !3
}

fn number16(bytes: &[u8], at: usize) -> Option<u16> {
    let part = bytes.get(at..at + 2)?;
    part.try_into().ok().map(u16::from_ne_bytes)
}

fn number32(bytes: &[u8], at: usize) -> Option<u32> {
    let part = bytes.get(at..at + 4)?;
    part.try_into().ok().map(u32::from_ne_bytes)
}
