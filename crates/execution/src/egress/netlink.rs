//! The little of rtnetlink that a loopback-only namespace needs, without spawning `ip`.

use std::{
    io,
    net::{Ipv4Addr, Ipv6Addr},
    os::fd::{AsRawFd, OwnedFd},
};

use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, recv, send, socket,
};

/// The kernel gives the loopback device of every network namespace this index.
const LOOPBACK_INDEX: u32 = 1;
const ACK: u16 = (libc::NLM_F_REQUEST | libc::NLM_F_ACK) as u16;
const CREATE: u16 = ACK | (libc::NLM_F_CREATE | libc::NLM_F_REPLACE) as u16;

/// A connection to the kernel's routing tables in the network namespace of the thread that opened it.
pub(super) struct Netlink {
    socket: OwnedFd,
    sequence: u32,
}

/// What the fixed part of a route's message says.
struct Route {
    family: i32,
    /// Bits of the destination that count.
    prefix: u8,
    table: u8,
    scope: u8,
    kind: u8,
}

impl Route {
    const fn default(family: i32, scope: u8) -> Self {
        Self {
            family,
            prefix: 0,
            table: libc::RT_TABLE_MAIN,
            scope,
            kind: libc::RTN_UNICAST,
        }
    }
}

impl Netlink {
    /// Opens one.
    pub(super) fn open() -> io::Result<Self> {
        let socket = socket(
            AddressFamily::Netlink,
            SockType::Raw,
            SockFlag::SOCK_CLOEXEC,
            SockProtocol::NetlinkRoute,
        )?;
        Ok(Self {
            socket,
            sequence: 0,
        })
    }

    /// `ip link set lo up`
    pub(super) fn loopback_up(&mut self) -> io::Result<()> {
        let up = libc::IFF_UP as u32;
        let mut body = vec![libc::AF_UNSPEC as u8, 0, 0, 0];
        body.extend(LOOPBACK_INDEX.to_ne_bytes());
        body.extend(up.to_ne_bytes());
        body.extend(up.to_ne_bytes());
        self.request(libc::RTM_NEWLINK, ACK, &body, &[])
    }

    /// `ip addr add ADDRESS/32 dev lo`
    pub(super) fn add_address4(&mut self, address: Ipv4Addr) -> io::Result<()> {
        self.add_address(libc::AF_INET, 32, &address.octets())
    }

    /// `ip addr add ADDRESS/128 dev lo`
    pub(super) fn add_address6(&mut self, address: Ipv6Addr) -> io::Result<()> {
        self.add_address(libc::AF_INET6, 128, &address.octets())
    }

    fn add_address(&mut self, family: i32, prefix: u8, address: &[u8]) -> io::Result<()> {
        // Without the search for duplicates an IPv6 address can be bound at once.
        let mut body = vec![
            family as u8,
            prefix,
            libc::IFA_F_NODAD as u8,
            libc::RT_SCOPE_UNIVERSE,
        ];
        body.extend(LOOPBACK_INDEX.to_ne_bytes());
        self.request(
            libc::RTM_NEWADDR,
            CREATE,
            &body,
            &[(libc::IFA_LOCAL, address), (libc::IFA_ADDRESS, address)],
        )
    }

    /// `ip route add default dev lo src SOURCE`
    pub(super) fn default_route4(&mut self, source: Ipv4Addr) -> io::Result<()> {
        let index = LOOPBACK_INDEX.to_ne_bytes();
        self.route(
            &Route::default(libc::AF_INET, libc::RT_SCOPE_LINK),
            &[
                (libc::RTA_OIF, &index),
                (libc::RTA_PREFSRC, &source.octets()),
            ],
        )
    }

    /// `ip -6 route add default dev lo`
    pub(super) fn default_route6(&mut self) -> io::Result<()> {
        let index = LOOPBACK_INDEX.to_ne_bytes();
        self.route(
            &Route::default(libc::AF_INET6, libc::RT_SCOPE_UNIVERSE),
            &[(libc::RTA_OIF, &index)],
        )
    }

    /// `ip -6 route add local ADDRESS/128 dev lo table local`
    ///
    /// The kernel makes this route of an address by itself, but later, on a thread of its own, also without a search for
    /// duplicates. Until then the address can be bound, and who connects to it is told after a second that the network
    /// is unreachable. With this route it is reached from the first moment.
    pub(super) fn local_route6(&mut self, address: Ipv6Addr) -> io::Result<()> {
        let index = LOOPBACK_INDEX.to_ne_bytes();
        self.route(
            &Route {
                family: libc::AF_INET6,
                prefix: 128,
                table: libc::RT_TABLE_LOCAL,
                scope: libc::RT_SCOPE_UNIVERSE,
                kind: libc::RTN_LOCAL,
            },
            &[(libc::RTA_DST, &address.octets()), (libc::RTA_OIF, &index)],
        )
    }

    fn route(&mut self, route: &Route, attributes: &[(u16, &[u8])]) -> io::Result<()> {
        let mut body = vec![
            route.family as u8,
            route.prefix,
            0,
            0,
            route.table,
            libc::RTPROT_BOOT,
            route.scope,
            route.kind,
        ];
        body.extend(0_u32.to_ne_bytes());
        self.request(libc::RTM_NEWROUTE, CREATE, &body, attributes)
    }

    /// Sends one request and waits for the kernel's acknowledgement.
    fn request(
        &mut self,
        kind: u16,
        flags: u16,
        body: &[u8],
        attributes: &[(u16, &[u8])],
    ) -> io::Result<()> {
        self.sequence += 1;
        let message = message(kind, flags, self.sequence, body, attributes);
        send(self.socket.as_raw_fd(), &message, MsgFlags::empty())?;
        let mut answer = [0_u8; 4096];
        let length = recv(self.socket.as_raw_fd(), &mut answer, MsgFlags::empty())?;
        match acknowledgement(&answer[..length]) {
            Some(0) => Ok(()),
            Some(code) => Err(io::Error::from_raw_os_error(-code)),
            None => Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "the kernel's netlink answer makes no sense",
            )),
        }
    }
}

/// A netlink message: header, fixed body, attributes, each padded to four bytes.
pub(super) fn message(
    kind: u16,
    flags: u16,
    sequence: u32,
    body: &[u8],
    attributes: &[(u16, &[u8])],
) -> Vec<u8> {
    let mut message = Vec::with_capacity(128);
    message.extend([0; 4]);
    message.extend(kind.to_ne_bytes());
    message.extend(flags.to_ne_bytes());
    message.extend(sequence.to_ne_bytes());
    message.extend(0_u32.to_ne_bytes());
    message.extend(body);
    for (attribute, value) in attributes {
        message.extend((4 + value.len() as u16).to_ne_bytes());
        message.extend(attribute.to_ne_bytes());
        message.extend(*value);
        message.resize(message.len().next_multiple_of(4), 0);
    }
    let length = message.len() as u32;
    message[..4].copy_from_slice(&length.to_ne_bytes());
    message
}

/// The error code of an acknowledgement: 0 or a negative errno.
fn acknowledgement(answer: &[u8]) -> Option<i32> {
    let kind = u16::from_ne_bytes(answer.get(4..6)?.try_into().ok()?);
    if i32::from(kind) != libc::NLMSG_ERROR {
        return None;
    }
    Some(i32::from_ne_bytes(answer.get(16..20)?.try_into().ok()?))
}
