//! Hears from the kernel of each address that is refused for the first time, so that it can be announced at once.
#![allow(unsafe_code)]

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
};

use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, recv, send, socket,
};

use tokio::io::unix::AsyncFd;

use super::{NFLOG_GROUP, netlink::message, ruleset::Tried};

const ULOG_PACKET: u16 = 4 << 8;
const ULOG_CONFIG: u16 = (4 << 8) | 1;
const CONFIG_COMMAND: u16 = 1;
const CONFIG_MODE: u16 = 2;
const CONFIG_THRESHOLD: u16 = 5;
const COMMAND_BIND: u8 = 1;
const COPY_PACKET: u8 = 2;
const ATTRIBUTE_PAYLOAD: u16 = 9;
/// Enough of a packet to hold an IPv6 header and the ports.
const SNAP: u32 = 64;

/// A subscription to the refused packets of the namespace of the thread that opened it. Never blocks.
pub(super) struct Nflog(OwnedFd);

impl Nflog {
    /// Subscribes.
    pub(super) fn open() -> io::Result<Self> {
        let fd = socket(
            AddressFamily::Netlink,
            SockType::Raw,
            SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK,
            SockProtocol::NetlinkNetFilter,
        )?;
        let mut header = vec![0_u8, 0];
        header.extend(NFLOG_GROUP.to_be_bytes());
        let mut mode = SNAP.to_be_bytes().to_vec();
        mode.extend([COPY_PACKET, 0]);
        let settings: [(u16, &[u8]); 3] = [
            (CONFIG_COMMAND, &[COMMAND_BIND]),
            (CONFIG_MODE, &mode),
            (CONFIG_THRESHOLD, &1_u32.to_be_bytes()),
        ];
        for (sequence, setting) in settings.into_iter().enumerate() {
            let flags = (libc::NLM_F_REQUEST | libc::NLM_F_ACK) as u16;
            send(
                fd.as_raw_fd(),
                &message(ULOG_CONFIG, flags, sequence as u32, &header, &[setting]),
                MsgFlags::empty(),
            )?;
            let mut answer = [0_u8; 256];
            let length = recv(fd.as_raw_fd(), &mut answer, MsgFlags::empty())?;
            let code = answer[..length]
                .get(16..20)
                .and_then(|code| code.try_into().ok());
            match code.map(i32::from_ne_bytes) {
                Some(0) => {}
                Some(code) => return Err(io::Error::from_raw_os_error(-code)),
                None => return Err(io::ErrorKind::InvalidData.into()),
            }
        }
        Ok(Self(fd))
    }

    /// For reading on the current tokio runtime.
    pub(super) fn listen(self) -> io::Result<AsyncFd<Self>> {
        // Safety: the descriptor is owned by `self`, which gives it to nobody else and always names the same one, and
        // which the result keeps until it has deregistered.
        unsafe { AsyncFd::register(self) }.map_err(|error| error.into_parts().1)
    }

    /// What was refused since the last call; `WouldBlock` when nothing was.
    pub(super) fn read(&self) -> io::Result<Vec<Tried>> {
        let mut buffer = [0_u8; 16 * 1024];
        let length = recv(self.0.as_raw_fd(), &mut buffer, MsgFlags::empty())?;
        Ok(messages(&buffer[..length]))
    }
}

impl AsFd for Nflog {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl AsRawFd for Nflog {
    fn as_raw_fd(&self) -> i32 {
        self.0.as_raw_fd()
    }
}

fn messages(mut buffer: &[u8]) -> Vec<Tried> {
    let mut found = Vec::new();
    while let Some(length) = u32_at(buffer, 0).map(|length| length as usize) {
        if length < 20 || length > buffer.len() {
            break;
        }
        let (message, _) = buffer.split_at(length);
        let kind = u16::from_ne_bytes([message[4], message[5]]);
        if kind == ULOG_PACKET {
            found.extend(payload(&message[20..]).and_then(destination));
        }
        buffer = buffer.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    found
}

/// The copied packet among a message's attributes.
fn payload(mut attributes: &[u8]) -> Option<&[u8]> {
    loop {
        let length = usize::from(u16::from_ne_bytes(attributes.get(..2)?.try_into().ok()?));
        let kind = u16::from_ne_bytes(attributes.get(2..4)?.try_into().ok()?);
        let value = attributes.get(4..length)?;
        if kind == ATTRIBUTE_PAYLOAD {
            return Some(value);
        }
        attributes = attributes.get(length.next_multiple_of(4)..)?;
    }
}

/// Where a TCP or UDP packet was going.
fn destination(packet: &[u8]) -> Option<Tried> {
    let (address, protocol, transport) = match packet.first()? >> 4 {
        4 => {
            let header = usize::from(packet[0] & 15) * 4;
            let address: [u8; 4] = packet.get(16..20)?.try_into().ok()?;
            (
                IpAddr::V4(Ipv4Addr::from(address)),
                *packet.get(9)?,
                packet.get(header..)?,
            )
        }
        6 => {
            let address: [u8; 16] = packet.get(24..40)?.try_into().ok()?;
            (
                IpAddr::V6(Ipv6Addr::from(address)),
                packet[6],
                packet.get(40..)?,
            )
        }
        _ => return None,
    };
    let udp = match i32::from(protocol) {
        libc::IPPROTO_TCP => false,
        libc::IPPROTO_UDP => true,
        _ => return None,
    };
    let port = u16::from_be_bytes(transport.get(2..4)?.try_into().ok()?);
    Some(Tried {
        address,
        port,
        udp,
        packets: 1,
    })
}

fn u32_at(buffer: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(buffer.get(at..at + 4)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_logged_packet_tells_where_it_was_going() {
        let mut packet = vec![0_u8; 24];
        packet[0] = 0x45;
        packet[9] = 6;
        packet[16..20].copy_from_slice(&[1, 2, 3, 4]);
        packet[22..24].copy_from_slice(&99_u16.to_be_bytes());
        let bytes = message(
            ULOG_PACKET,
            0,
            0,
            &[0; 4],
            &[(1, b"xx"), (ATTRIBUTE_PAYLOAD, &packet)],
        );
        let found = messages(&bytes);
        assert_eq!(found.len(), 1);
        assert_eq!(
            (found[0].address.to_string(), found[0].port),
            ("1.2.3.4".into(), 99)
        );
    }

    #[test]
    fn a_damaged_message_is_skipped() {
        for length in 0..40 {
            assert!(messages(&vec![255; length]).is_empty());
            assert!(destination(&vec![0x45; length]).is_none_or(|tried| tried.port == 0x4545));
        }
    }
}
