//! What a client asked for: the COM_BINLOG_DUMP packet, and the user variables it set before.

use std::time::Duration;

use spillway_binlog::event::ChecksumAlgorithm;
use spillway_binlog::gtid::mariadb::{Gtid, parse_list};

use super::error::DumpError;
use crate::serve::sql::Value;

/// Answer with EOF at the end of the log instead of waiting.
const FLAG_NON_BLOCK: u16 = 0x0001;
/// Send Annotate_rows events.
const FLAG_SEND_ANNOTATE_ROWS: u16 = 0x0002;

/// The shortest period of heartbeats, as MariaDB's replicas allow it.
const MIN_HEARTBEAT: Duration = Duration::from_millis(1);

/// What `@mariadb_slave_capability` can say, each including the ones before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Capability(pub u64);

impl Capability {
    /// Knows Annotate_rows.
    pub const ANNOTATE: Self = Self(1);
    /// Does not mind events left out.
    pub const TOLERATE_HOLES: Self = Self(2);
    /// Knows Binlog_checkpoint.
    pub const BINLOG_CHECKPOINT: Self = Self(3);
    /// Knows GTIDs.
    pub const GTID: Self = Self(4);
}

/// Where a dump starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Start {
    /// In this file (empty: the first) at this position.
    Position { file: String, position: u64 },
    /// Behind these GTIDs, one a domain.
    Gtid(GtidStart),
}

/// A start by GTID, as `@slave_connect_state` and its companions say it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct GtidStart {
    pub state: Vec<Gtid>,
    /// A GTID that is not there though later ones are is an error.
    pub strict: bool,
    /// What the log does not have yet may have come to the replica another way.
    pub ignore_duplicates: bool,
    /// Where to stop, one a domain.
    pub until: Option<Vec<Gtid>>,
    /// Stop before these, not behind.
    pub until_before: bool,
}

/// One dump.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DumpRequest {
    pub server_id: u32,
    pub start: Start,
    /// EOF at the end.
    pub non_block: bool,
    pub annotate: bool,
    /// `@master_binlog_checksum`; a client that never set it cannot read checksums.
    pub checksum: Option<ChecksumAlgorithm>,
    pub capability: Capability,
    /// How long the stream may be silent.
    pub heartbeat: Option<Duration>,
    /// Every packet carries the two bytes of semi-synchronous replication.
    pub semi_sync: bool,
}

/// `0x12 | position u32 | flags u16 | server id u32 | file name`. Some tools end the name with NULs.
struct Packet {
    position: u32,
    flags: u16,
    server_id: u32,
    file: String,
}

impl DumpRequest {
    /// Reads the packet (command byte included); `variable` gives the session's user variables.
    ///
    /// # Errors
    /// [`DumpError::Malformed`].
    pub fn parse(
        packet: &[u8],
        variable: impl Fn(&str) -> Option<Value>,
    ) -> Result<Self, DumpError> {
        let packet = parse_packet(packet)?;
        let number = |name| variable(name).map_or(0, |value| value.to_unsigned());
        let start = match gtid_start(&variable)? {
            Some(start) => Start::Gtid(start),
            None => Start::Position { file: packet.file, position: u64::from(packet.position) },
        };
        let heartbeat = number("master_heartbeat_period");
        Ok(Self {
            server_id: packet.server_id,
            start,
            // As MariaDB: who has no server id is a tool that reads to the end.
            non_block: packet.flags & FLAG_NON_BLOCK != 0 || packet.server_id == 0,
            annotate: packet.flags & FLAG_SEND_ANNOTATE_ROWS != 0,
            checksum: variable("master_binlog_checksum").map(|value| checksum(&value)),
            capability: Capability(number("mariadb_slave_capability")),
            heartbeat: (heartbeat != 0).then(|| Duration::from_nanos(heartbeat).max(MIN_HEARTBEAT)),
            semi_sync: number("rpl_semi_sync_slave") != 0,
        })
    }
}

fn parse_packet(packet: &[u8]) -> Result<Packet, DumpError> {
    let short = || DumpError::Malformed("the COM_BINLOG_DUMP packet is too short");
    let (head, name) = packet.split_first_chunk::<11>().ok_or_else(short)?;
    let [_, p0, p1, p2, p3, f0, f1, s0, s1, s2, s3] = *head;
    let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
    let name = name.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    Ok(Packet {
        position: u32::from_le_bytes([p0, p1, p2, p3]),
        flags: u16::from_le_bytes([f0, f1]),
        server_id: u32::from_le_bytes([s0, s1, s2, s3]),
        file: String::from_utf8_lossy(name).into_owned(),
    })
}

fn checksum(value: &Value) -> ChecksumAlgorithm {
    let asks = value.to_text().is_some_and(|text| text.eq_ignore_ascii_case("CRC32"));
    if asks { ChecksumAlgorithm::Crc32 } else { ChecksumAlgorithm::None }
}

/// A start by GTID if the client set `@slave_connect_state`, also to an empty text.
fn gtid_start(variable: &impl Fn(&str) -> Option<Value>) -> Result<Option<GtidStart>, DumpError> {
    let list = |name, fault| {
        let text = variable(name).and_then(|value| value.to_text());
        text.map(|text| parse_state(&text, fault)).transpose()
    };
    let fault = "malformed slave request when obtaining start position from GTID state";
    let Some(state) = list("slave_connect_state", fault)? else { return Ok(None) };
    let fault = "malformed slave request when obtaining UNTIL position sent from slave";
    let until = list("slave_until_gtid", fault)?;
    let on = |name| variable(name).is_some_and(|value| value.to_unsigned() != 0);
    Ok(Some(GtidStart {
        state,
        until,
        strict: on("slave_gtid_strict_mode"),
        ignore_duplicates: on("slave_gtid_ignore_duplicates"),
        until_before: on("slave_gtid_until_before_gtids"),
    }))
}

/// At most one GTID a domain.
fn parse_state(text: &str, fault: &'static str) -> Result<Vec<Gtid>, DumpError> {
    let state = parse_list(text).map_err(|_| DumpError::Malformed(fault))?;
    let mut domains: Vec<_> = state.iter().map(|gtid| gtid.domain).collect();
    domains.sort_unstable();
    if domains.windows(2).any(|pair| pair[0] == pair[1]) {
        return Err(DumpError::Malformed(fault));
    }
    Ok(state)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(packet: &[u8], variables: &[(&str, &str)]) -> Result<DumpRequest, DumpError> {
        DumpRequest::parse(packet, |wanted| {
            let found = variables.iter().find(|(name, _)| *name == wanted);
            found.map(|(_, value)| Value::Text((*value).to_owned()))
        })
    }

    const REPLICA: &[u8] = b"\x12\x04\x00\x00\x00\x02\x00\x02\x00\x00\x00mbin.000001";

    #[test]
    fn a_replica_by_position() {
        let request = request(REPLICA, &[("master_binlog_checksum", "CRC32")]).unwrap();
        let file = "mbin.000001".to_owned();
        assert_eq!(request.start, Start::Position { file, position: 4 });
        assert_eq!((request.server_id, request.annotate, request.non_block), (2, true, false));
        assert_eq!(request.checksum, Some(ChecksumAlgorithm::Crc32));
        assert_eq!((request.heartbeat, request.semi_sync), (None, false));
        assert_eq!(request.capability, Capability(0));
    }

    #[test]
    fn a_replica_by_gtid() {
        let variables = [
            ("slave_connect_state", "7-1-1,0-1-7"),
            ("slave_gtid_strict_mode", "1"),
            ("slave_until_gtid", "0-1-9"),
            ("master_heartbeat_period", "30000001024"),
            ("mariadb_slave_capability", "4"),
            ("rpl_semi_sync_slave", "1"),
        ];
        let request = request(REPLICA, &variables).unwrap();
        let Start::Gtid(start) = request.start else { panic!("{request:?}") };
        assert_eq!(start.state, parse_list("7-1-1,0-1-7").unwrap());
        assert_eq!(start.until, Some(parse_list("0-1-9").unwrap()));
        assert!(start.strict && !start.ignore_duplicates && !start.until_before);
        assert_eq!(request.heartbeat, Some(Duration::from_nanos(30_000_001_024)));
        assert!(request.semi_sync && request.capability >= Capability::GTID);
    }

    #[test]
    fn an_empty_state_is_a_state() {
        let request = request(REPLICA, &[("slave_connect_state", "")]).unwrap();
        assert_eq!(request.start, Start::Gtid(GtidStart::default()));
    }

    #[test]
    fn names_end_at_the_first_nul() {
        let zongji = b"\x12\x04\x00\x00\x00\x00\x00\x02\x00\x00\x00mbin.000001\0";
        let file = "mbin.000001".to_owned();
        let asked = request(zongji, &[]).unwrap();
        assert_eq!(asked.start, Start::Position { file, position: 4 });
        let pymysqlreplication = b"\x12\x04\x00\x00\x00\x01\x00\x85\x03\x00\x00\0\0\0";
        let asked = request(pymysqlreplication, &[]).unwrap();
        assert_eq!(asked.start, Start::Position { file: String::new(), position: 4 });
        assert!(asked.non_block && asked.checksum.is_none());
    }

    #[test]
    fn bad_requests_are_refused() {
        for len in 0..11 {
            assert!(request(&REPLICA[..len], &[]).is_err(), "{len}");
        }
        for state in ["0-1", "0-1-1,0-2-2", "x"] {
            assert!(request(REPLICA, &[("slave_connect_state", state)]).is_err(), "{state}");
        }
    }
}
