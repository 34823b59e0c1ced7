//! Ranges of addresses.

use std::{net::IpAddr, str::FromStr};

/// A range of addresses that a deployment's configuration opens, such as `10.20.0.0/16`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cidr {
    address: IpAddr,
    prefix: u8,
}

impl FromStr for Cidr {
    type Err = std::io::Error;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let bad = || std::io::Error::other("write ADDRESS/BITS, such as 10.20.0.0/16");
        let (address, prefix) = text.split_once('/').ok_or_else(bad)?;
        let (address, prefix) = (
            address.parse::<IpAddr>().map_err(|_| bad())?,
            prefix.parse::<u8>().map_err(|_| bad())?,
        );
        let most = if address.is_ipv4() { 32 } else { 128 };
        (prefix <= most)
            .then_some(Self { address, prefix })
            .ok_or_else(bad)
    }
}
