//! Apps to upstream: bytes pass both ways, commands and replies are followed by packet headers.
