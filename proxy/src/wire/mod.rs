//! Packets, capabilities, handshake and replies of the MySQL protocol. No I/O here.
