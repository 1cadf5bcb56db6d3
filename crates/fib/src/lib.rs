//! Longest-prefix match for IPv4 and IPv6.
