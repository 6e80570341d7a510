//! Events of sample transactions, for the crate's own tests, those beside it, and the benchmarks: each takes this file in as a module, so
//! that none of it is part of the crate's interface.

use std::sync::Arc;

use spillway_binlog::event::gtid::FLAG_TRANSACTIONAL;
use spillway_binlog::event::{
    ChecksumAlgorithm, EventHeader, EventType, FormatDescription, control,
};
use spillway_binlog::gtid::mariadb::Gtid;

/// What a MariaDB 10.11 says of its events.
pub(crate) fn format() -> Arc<FormatDescription> {
    let mut post_header_lengths = vec![0; 171];
    post_header_lengths[18] = 8;
    post_header_lengths[22..25].fill(8);
    Arc::new(FormatDescription {
        server_version: "10.11.19-MariaDB-log".into(),
        created: 0,
        post_header_lengths,
        checksum: ChecksumAlgorithm::Crc32,
    })
}

/// An event of server 1 without a checksum.
pub(crate) fn event(event_type: EventType, body: &[u8]) -> Vec<u8> {
    event_of(1, event_type, body)
}

/// What a transaction begins with.
pub(crate) fn gtid_event(gtid: Gtid) -> Vec<u8> {
    let mut body = gtid.sequence.to_le_bytes().to_vec();
    body.extend_from_slice(&gtid.domain.to_le_bytes());
    body.push(FLAG_TRANSACTIONAL);
    body.extend_from_slice(&[0; 6]);
    event_of(gtid.server, EventType::GTID, &body)
}

/// What it ends with.
pub(crate) fn xid_event(gtid: Gtid) -> Vec<u8> {
    event(EventType::XID, &gtid.sequence.to_le_bytes())
}

fn event_of(server_id: u32, event_type: EventType, body: &[u8]) -> Vec<u8> {
    let header = EventHeader {
        timestamp: 1_700_000_000,
        event_type,
        server_id,
        event_size: 0,
        end_position: 0,
        flags: 0,
    };
    control::event(header, body, ChecksumAlgorithm::None)
}
