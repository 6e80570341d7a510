//! Tests of the follower: scripted exchanges for each kind of reply, the same in any split, and sessions recorded from servers.

mod recorded;

use proptest::prelude::*;

use super::*;
use crate::wire::capability as cap;
use crate::wire::cursor::put_lenenc_bytes;
use crate::wire::packet::{MAX_PAYLOAD, put_packet};
use crate::wire::reply::{EofPacket, ErrPacket, OkPacket, status};

const CLASSIC: u64 = cap::PROTOCOL_41;
const NEW: u64 = cap::PROTOCOL_41 | cap::DEPRECATE_EOF | cap::SESSION_TRACK;

/// Bytes of both directions in the order in which they pass, written packet by packet.
#[derive(Clone, Debug)]
struct Script {
    capabilities: u64,
    sequence: u8,
    bytes: Vec<(Side, Vec<u8>)>,
}

impl Script {
    /// Behind a login that was accepted.
    fn new(capabilities: u64) -> Self {
        Self::in_login(capabilities).server(&ok(status::AUTOCOMMIT))
    }

    fn in_login(capabilities: u64) -> Self {
        Self { capabilities, sequence: 2, bytes: Vec::new() }
    }

    /// A client's packet that starts a command.
    fn command(mut self, command: Command, rest: &[u8]) -> Self {
        self.sequence = 0;
        self.client(&[&[command.0], rest].concat())
    }

    fn query(self) -> Self {
        self.command(Command::QUERY, b"select ...")
    }

    fn client(self, payload: &[u8]) -> Self {
        self.packet(Side::Client, payload)
    }

    fn server(self, payload: &[u8]) -> Self {
        self.packet(Side::Server, payload)
    }

    fn servers(self, payloads: &[Vec<u8>]) -> Self {
        payloads.iter().fold(self, |script, payload| script.server(payload))
    }

    fn packet(mut self, side: Side, payload: &[u8]) -> Self {
        let mut bytes = Vec::new();
        self.sequence = put_packet(&mut bytes, self.sequence, payload);
        self.bytes.push((side, bytes));
        self
    }

    /// Numbers go on from here.
    fn at(mut self, sequence: u8) -> Self {
        self.sequence = sequence;
        self
    }

    fn run(&self) -> (Follower, Vec<Event>) {
        self.run_in_pieces(&mut |len| len)
    }

    /// Feeds each run of bytes in pieces whose lengths `piece` chooses from what is left.
    fn run_in_pieces(&self, piece: &mut impl FnMut(usize) -> usize) -> (Follower, Vec<Event>) {
        let mut follower = Follower::new(self.capabilities, 1);
        let mut events = Vec::new();
        for (side, bytes) in self.runs() {
            let mut rest = &bytes[..];
            while !rest.is_empty() {
                let (head, tail) = rest.split_at(piece(rest.len()).clamp(1, rest.len()));
                feed(&mut follower, side, head, &mut events);
                rest = tail;
            }
        }
        (follower, events)
    }

    /// What goes one way without anything the other way between.
    fn runs(&self) -> Vec<(Side, Vec<u8>)> {
        let mut runs: Vec<(Side, Vec<u8>)> = Vec::new();
        for (side, bytes) in &self.bytes {
            match runs.last_mut() {
                Some((last, run)) if last == side => run.extend_from_slice(bytes),
                _ => runs.push((*side, bytes.clone())),
            }
        }
        runs
    }
}

fn feed(follower: &mut Follower, side: Side, bytes: &[u8], events: &mut Vec<Event>) {
    let mut sink = |end: usize, event| {
        assert!(end <= bytes.len(), "an event behind the bytes it came from");
        events.push(event);
    };
    match side {
        Side::Client => follower.client_bytes(bytes, &mut sink),
        Side::Server => follower.server_bytes(bytes, &mut sink),
    }
}

fn ok(status: u16) -> Vec<u8> {
    OkPacket { status, ..OkPacket::default() }.encode(0)
}

/// An OK that ends rows.
fn end(status: u16) -> Vec<u8> {
    let mut payload = ok(status);
    payload[0] = 0xfe;
    payload
}

fn eof(status: u16) -> Vec<u8> {
    EofPacket { warnings: 0, status }.encode()
}

fn err(code: u16) -> Vec<u8> {
    ErrPacket::new(code, b"HY000", "no").encode()
}

fn definition() -> Vec<u8> {
    let mut payload = Vec::new();
    for part in [&b"def"[..], b"db", b"t", b"t", b"column", b"column"] {
        put_lenenc_bytes(&mut payload, part);
    }
    payload.extend_from_slice(&[12, 33, 0, 0, 0, 0, 0, 253, 0, 0, 0, 0, 0]);
    payload
}

/// A result set with one column, without its end.
fn result_set(capabilities: u64, rows: usize) -> Vec<Vec<u8>> {
    let mut packets = vec![vec![1], definition()];
    if capabilities & cap::DEPRECATE_EOF == 0 {
        packets.push(eof(status::AUTOCOMMIT));
    }
    packets.extend(std::iter::repeat_n(b"\x05value".to_vec(), rows));
    packets
}

fn end_of(capabilities: u64, status: u16) -> Vec<u8> {
    if capabilities & cap::DEPRECATE_EOF == 0 { eof(status) } else { end(status) }
}

fn prepared(columns: u16, parameters: u16) -> Vec<u8> {
    let mut payload = vec![0, 1, 0, 0, 0];
    payload.extend_from_slice(&columns.to_le_bytes());
    payload.extend_from_slice(&parameters.to_le_bytes());
    payload.extend_from_slice(&[0, 0, 0]);
    payload
}

/// A prepare with its reply.
fn prepare(script: Script, columns: u16, parameters: u16) -> Script {
    let capabilities = script.capabilities;
    let script =
        script.command(Command::STMT_PREPARE, b"select ?").server(&prepared(columns, parameters));
    [parameters, columns].into_iter().filter(|count| *count > 0).fold(script, |script, count| {
        let script = script.servers(&vec![definition(); count.into()]);
        if capabilities & cap::DEPRECATE_EOF == 0 { script.server(&eof(2)) } else { script }
    })
}

fn reply(command: Command, status: u16) -> Event {
    Event::Reply { command, status, error: None }
}

/// Asserts the events behind the login, that the follower is idle, and that it is the same byte by byte.
fn assert_followed(script: &Script, expected: &[Event]) {
    let (follower, events) = script.run();
    assert_eq!(events, [&[Event::LoggedIn], expected].concat());
    assert!(follower.is_between_commands());
    assert_eq!(follower.awaited_sequence(), None);
    let (_, bytewise) = script.run_in_pieces(&mut |_| 1);
    assert_eq!(bytewise, events);
}

fn last_fault(script: &Script) -> Fault {
    match script.run().1.last() {
        Some(Event::Lost(fault)) => *fault,
        other => panic!("{other:?}"),
    }
}

#[test]
fn simple_commands() {
    for command in [Command::PING, Command::INIT_DB, Command::RESET_CONNECTION, Command::STMT_RESET]
    {
        let script = Script::new(CLASSIC).command(command, b"").server(&ok(2));
        assert_followed(&script, &[Event::Command(command), reply(command, 2)]);
    }
    for (capabilities, packet) in [(CLASSIC, eof(2)), (NEW, end(2)), (NEW, eof(2))] {
        let script =
            Script::new(capabilities).command(Command::SET_OPTION, &[0, 0]).server(&packet);
        let expected = [Event::Command(Command::SET_OPTION), reply(Command::SET_OPTION, 2)];
        assert_followed(&script, &expected);
    }
}

#[test]
fn result_sets_end_at_their_end() {
    for capabilities in [CLASSIC, NEW] {
        for rows in [0, 1, 3] {
            let script = Script::new(capabilities)
                .query()
                .servers(&result_set(capabilities, rows))
                .server(&end_of(capabilities, 0x22));
            let expected = [Event::Command(Command::QUERY), reply(Command::QUERY, 0x22)];
            assert_followed(&script, &expected);
        }
    }
}

#[test]
fn end_with_session_state_is_longer_than_an_eof() {
    let long = OkPacket {
        status: 0x4002,
        affected_rows: 1 << 40,
        session_state: vec![0; 300],
        ..OkPacket::default()
    };
    let mut payload = long.encode(NEW);
    payload[0] = 0xfe;
    let script = Script::new(NEW).query().servers(&result_set(NEW, 2)).server(&payload);
    assert_followed(&script, &[Event::Command(Command::QUERY), reply(Command::QUERY, 0x4002)]);
}

#[test]
fn event_comes_with_the_last_byte_of_its_reply() {
    let script = Script::new(NEW).query();
    let (mut follower, mut events) = script.run();
    let mut packet = Vec::new();
    let ok = OkPacket { status: 0x4002, session_state: vec![0; 100], ..OkPacket::default() };
    put_packet(&mut packet, 1, &ok.encode(NEW));
    let (head, last) = packet.split_at(packet.len() - 1);
    feed(&mut follower, Side::Server, head, &mut events);
    assert_eq!(events.last(), Some(&Event::Command(Command::QUERY)));
    let mut ends = Vec::new();
    follower.server_bytes(last, &mut |end, event| ends.push((end, event)));
    assert_eq!(ends, [(1, reply(Command::QUERY, 0x4002))]);
}

#[test]
fn several_results_are_one_reply() {
    let more = status::MORE_RESULTS | status::AUTOCOMMIT;
    for capabilities in [CLASSIC, NEW] {
        let script = Script::new(capabilities)
            .query()
            .server(&ok(more))
            .servers(&result_set(capabilities, 2))
            .server(&end_of(capabilities, more))
            .servers(&result_set(capabilities, 0))
            .server(&end_of(capabilities, more))
            .server(&ok(2));
        assert_followed(&script, &[Event::Command(Command::QUERY), reply(Command::QUERY, 2)]);
        // An error has no status: the last known one stands.
        let failed = Script::new(capabilities).query().server(&ok(more)).server(&err(1064));
        let error = Event::Reply { command: Command::QUERY, status: 2, error: Some(1064) };
        assert_followed(&failed, &[Event::Command(Command::QUERY), error]);
    }
}

#[test]
fn error_ends_a_reply_anywhere() {
    let packets = result_set(CLASSIC, 2);
    for count in 0..packets.len() {
        let script =
            Script::new(CLASSIC).query().servers(&packets[..count]).server(&err(1317)).query();
        let script = script.server(&ok(2));
        let error = Event::Reply { command: Command::QUERY, status: 2, error: Some(1317) };
        let query = Event::Command(Command::QUERY);
        assert_followed(&script, &[query, error, query, reply(Command::QUERY, 2)]);
    }
}

#[test]
fn progress_reports_are_no_errors_for_clients_that_know_them() {
    let progress = [&[0xff, 0xff, 0xff, 1, 1, 3][..], &[0; 8]].concat();
    let script = Script::new(NEW | cap::MARIADB_PROGRESS)
        .query()
        .server(&progress)
        .server(&progress)
        .server(&ok(2));
    assert_followed(&script, &[Event::Command(Command::QUERY), reply(Command::QUERY, 2)]);
    let error = Script::new(NEW).query().server(&progress);
    let reply = Event::Reply { command: Command::QUERY, status: 2, error: Some(0xffff) };
    assert_followed(&error, &[Event::Command(Command::QUERY), reply]);
}

#[test]
fn local_file_is_no_command() {
    let script = Script::new(NEW)
        .query()
        .server(b"\xfb/etc/motd")
        .client(b"\x01 looks like a goodbye")
        .client(b"\x03 and this like a query")
        .client(b"")
        .server(&ok(2));
    assert_followed(&script, &[Event::Command(Command::QUERY), reply(Command::QUERY, 2)]);
    let refused = Script::new(NEW).query().server(b"\xfbfile").client(b"").server(&err(2));
    let error = Event::Reply { command: Command::QUERY, status: 2, error: Some(2) };
    assert_followed(&refused, &[Event::Command(Command::QUERY), error]);
}

#[test]
fn local_file_of_many_packets_passes_sequence_number_zero() {
    let mut script = Script::new(NEW).query().server(b"\xfbfile");
    for _ in 0..600 {
        script = script.client(b"\x0e");
    }
    let script = script.client(b"").server(&ok(2)).command(Command::PING, b"").server(&ok(2));
    let query = [Event::Command(Command::QUERY), reply(Command::QUERY, 2)];
    let ping = [Event::Command(Command::PING), reply(Command::PING, 2)];
    assert_followed(&script, &[query, ping].concat());
}

#[test]
fn local_file_with_a_packet_of_the_maximum_length_goes_on() {
    let script = Script::new(NEW)
        .query()
        .server(b"\xfbfile")
        .client(&vec![1; MAX_PAYLOAD])
        .client(b"more")
        .client(b"")
        .server(&ok(2));
    let (follower, events) = script.run();
    assert_eq!(events.last(), Some(&reply(Command::QUERY, 2)));
    assert!(follower.is_idle());
}

#[test]
fn prepare_has_definitions_of_both_kinds_or_none() {
    for capabilities in [CLASSIC, NEW] {
        for (columns, parameters) in [(0, 0), (0, 2), (3, 0), (3, 2)] {
            let script = prepare(Script::new(capabilities), columns, parameters);
            let command = Command::STMT_PREPARE;
            assert_followed(&script, &[Event::Command(command), reply(command, 2)]);
        }
    }
}

#[test]
fn cursors_leave_their_rows_to_fetches() {
    let open = status::CURSOR_EXISTS | status::AUTOCOMMIT;
    let last = status::LAST_ROW_SENT | status::AUTOCOMMIT;
    let (execute, fetch) = (Command::STMT_EXECUTE, Command::STMT_FETCH);
    for capabilities in [CLASSIC, NEW] {
        let script = Script::new(capabilities)
            .command(execute, &[1, 0, 0, 0, 1, 1, 0, 0, 0])
            .servers(&[vec![1], definition(), end_of(capabilities, open)])
            .command(fetch, &[1, 0, 0, 0, 2, 0, 0, 0])
            .servers(&[b"\0\0\x01a".to_vec(), b"\0\0\x01b".to_vec(), end_of(capabilities, open)])
            .command(fetch, &[1, 0, 0, 0, 2, 0, 0, 0])
            .server(&end_of(capabilities, last))
            .command(Command::STMT_CLOSE, &[1, 0, 0, 0])
            .command(Command::PING, b"")
            .server(&ok(2));
        let expected = [
            Event::Command(execute),
            reply(execute, open),
            Event::Command(fetch),
            reply(fetch, open),
            Event::Command(fetch),
            reply(fetch, last),
            Event::Command(Command::STMT_CLOSE),
            Event::Command(Command::PING),
            reply(Command::PING, 2),
        ];
        assert_followed(&script, &expected);
    }
}

#[test]
fn mariadb_leaves_out_definitions_that_the_client_has() {
    let execute = Command::STMT_EXECUTE;
    for eof_bit in [0, cap::DEPRECATE_EOF] {
        let capabilities = CLASSIC | eof_bit | cap::MARIADB_CACHE_METADATA;
        let known = {
            let mut packets = result_set(capabilities, 2);
            packets[0] = vec![1, 0];
            packets.remove(1);
            packets
        };
        let mut sent = result_set(capabilities, 2);
        sent[0] = vec![1, 1];
        for packets in [known, sent] {
            let script = Script::new(capabilities)
                .command(execute, &[1, 0, 0, 0, 0])
                .servers(&packets)
                .server(&end_of(capabilities, 2));
            assert_followed(&script, &[Event::Command(execute), reply(execute, 2)]);
        }
    }
}

#[test]
fn out_parameters_are_not_the_end() {
    let execute = Command::STMT_EXECUTE;
    let out = 2 | status::MORE_RESULTS | status::PS_OUT_PARAMS;
    for (capabilities, last) in [(CLASSIC, 2), (CLASSIC | cap::DEPRECATE_EOF, out)] {
        let mut script = Script::new(capabilities)
            .command(execute, &[1, 0, 0, 0, 0])
            .server(&[1])
            .server(&definition());
        if capabilities & cap::DEPRECATE_EOF == 0 {
            script = script.server(&end_of(capabilities, out));
        }
        let script = script.server(b"\0\0row").server(&end_of(capabilities, last)).server(&ok(2));
        assert_followed(&script, &[Event::Command(execute), reply(execute, 2)]);
    }
}

#[test]
fn mysql_leaves_out_definitions_when_asked_to() {
    let capabilities = NEW | cap::OPTIONAL_RESULTSET_METADATA;
    let none = [vec![2, 0], b"\x01a\x01b".to_vec()];
    let full = [vec![2, 1], definition(), definition(), b"\x01a\x01b".to_vec()];
    for packets in [&none[..], &full[..]] {
        let script = Script::new(capabilities).query().servers(packets).server(&end(2));
        assert_followed(&script, &[Event::Command(Command::QUERY), reply(Command::QUERY, 2)]);
    }
    let prepare = Command::STMT_PREPARE;
    let script = Script::new(capabilities)
        .command(prepare, b"select ?")
        .server(&[prepared(3, 2), vec![0]].concat());
    assert_followed(&script, &[Event::Command(prepare), reply(prepare, 2)]);
    // The EOFs behind the definitions come all the same.
    let capabilities = CLASSIC | cap::OPTIONAL_RESULTSET_METADATA;
    for (columns, parameters, ends) in [(3, 2, 2), (3, 0, 1), (0, 2, 1), (0, 0, 0)] {
        let answer = [prepared(columns, parameters), vec![0]].concat();
        let script = Script::new(capabilities).command(prepare, b"select ?").server(&answer);
        let script = (0..ends).fold(script, |script, _| script.server(&end_of(capabilities, 2)));
        assert_followed(&script, &[Event::Command(prepare), reply(prepare, 2)]);
    }
}

#[test]
fn field_list_and_statistics() {
    let (list, statistics) = (Command::FIELD_LIST, Command::STATISTICS);
    for capabilities in [CLASSIC, NEW] {
        let script = Script::new(capabilities)
            .command(list, b"t\0%")
            .servers(&[definition(), definition(), end_of(capabilities, 2)])
            .command(statistics, b"")
            .server(b"Uptime: 1  Threads: 2");
        let expected = [
            Event::Command(list),
            reply(list, 2),
            Event::Command(statistics),
            reply(statistics, 2),
        ];
        assert_followed(&script, &expected);
    }
}

#[test]
fn long_data_and_close_have_no_reply() {
    let script = Script::new(NEW)
        .command(Command::STMT_SEND_LONG_DATA, b"\x01\0\0\0\0\0data")
        .command(Command::STMT_CLOSE, &[1, 0, 0, 0]);
    let commands = [Command::STMT_SEND_LONG_DATA, Command::STMT_CLOSE].map(Event::Command);
    assert_followed(&script, &commands);
    let (follower, _) = script.command(Command::QUIT, b"").run();
    assert!(follower.has_quit() && follower.is_idle());
}

#[test]
fn change_user_is_a_login_again() {
    let change = Command::CHANGE_USER;
    let switch = b"\xfemysql_native_password\0salt of twenty bytes\0";
    let script = Script::new(NEW)
        .command(change, b"app\0\0shop\0")
        .server(switch)
        .client(&[3; 20])
        .server(&ok(2))
        .query()
        .server(&ok(3));
    let expected = [
        Event::Command(change),
        reply(change, 2),
        Event::Command(Command::QUERY),
        reply(Command::QUERY, 3),
    ];
    assert_followed(&script, &expected);
    assert!(!script.run().0.is_idle(), "a transaction is open");
    let sha2 = Script::new(NEW)
        .command(change, b"app\0\0shop\0")
        .server(b"\xfecaching_sha2_password\0salt of twenty bytes\0")
        .client(&[3; 32])
        .server(b"\x01\x04")
        .client(b"\x02")
        .server(b"\x01a key")
        .client(&[0; 256])
        .server(&ok(2));
    assert_followed(&sha2, &[Event::Command(change), Event::PasswordAsked, reply(change, 2)]);
}

#[test]
fn pipelined_commands_are_answered_in_order() {
    let (prepare, execute) = (Command::STMT_PREPARE, Command::STMT_EXECUTE);
    let script = Script::new(NEW)
        .command(prepare, b"select 1")
        .command(execute, &[0xff; 9])
        .command(Command::PING, b"")
        .at(1)
        .servers(&[prepared(1, 0), definition()])
        .at(1)
        .servers(&result_set(NEW, 1))
        .server(&end(2))
        .at(1)
        .server(&ok(2));
    let expected = [
        Event::Command(prepare),
        Event::Command(execute),
        Event::Command(Command::PING),
        reply(prepare, 2),
        reply(execute, 2),
        reply(Command::PING, 2),
    ];
    assert_followed(&script, &expected);
}

#[test]
fn command_and_row_of_many_packets() {
    let text = vec![b'x'; MAX_PAYLOAD * 2 + 10];
    let mut row = vec![0xfe];
    row.extend_from_slice(&(MAX_PAYLOAD as u64 + 1).to_le_bytes());
    row.resize(MAX_PAYLOAD * 2, b'y');
    for capabilities in [CLASSIC, NEW] {
        let script = Script::new(capabilities)
            .command(Command::QUERY, &text)
            .servers(&result_set(capabilities, 1))
            // Starts as an end does, and its last packet is empty.
            .server(&row)
            .server(&end_of(capabilities, 2));
        let (follower, events) = script.run();
        assert_eq!(events[1..], [Event::Command(Command::QUERY), reply(Command::QUERY, 2)]);
        assert!(follower.is_idle());
        let mut lengths = [1, 5, 1 << 20, 3, 1 << 23].into_iter().cycle();
        let (_, pieces) = script.run_in_pieces(&mut |_| lengths.next().unwrap());
        assert_eq!(pieces, events);
    }
}

#[test]
fn transaction_is_known_from_the_status() {
    let script = Script::new(NEW).query().server(&ok(status::IN_TRANSACTION));
    let (follower, _) = script.run();
    assert!(follower.is_between_commands() && !follower.is_idle());
    let (follower, _) = script.query().server(&ok(2)).run();
    assert!(follower.is_idle());
}

#[test]
fn login_dialogue_of_several_steps() {
    let script = Script::in_login(NEW)
        .server(b"\xfecaching_sha2_password\0salt of twenty bytes\0")
        .client(&[1; 32])
        .server(b"\x01\x04")
        .client(b"\x02")
        .server(b"\x01-----BEGIN PUBLIC KEY-----")
        .client(&[0; 256])
        .server(&ok(2));
    let (server, client) = (Event::LoginStep(Side::Server), Event::LoginStep(Side::Client));
    let asked = Event::PasswordAsked;
    let expected = [server, client, asked, client, server, client, Event::LoggedIn];
    assert_eq!(script.run().1, expected);
    let (away, back) = (b"\xfedialog\0", b"\xfecaching_sha2_password\0salt");
    for (payload, asks) in
        [(&b"\x01\x04"[..], true), (b"\x01\x03", false), (b"\x01\x04x", false), (b"\x01", false)]
    {
        let event = if asks { asked } else { server };
        let by_login = Script::in_login(NEW).server(payload);
        assert_eq!(by_login.run().1, [event], "{payload:?}");
        let by_switch = Script::in_login(NEW).server(away).server(back).server(payload);
        assert_eq!(by_switch.run().1, [server, server, event], "{payload:?}");
        let switched_away = Script::in_login(NEW).server(away).server(payload);
        assert_eq!(switched_away.run().1, [server, server], "{payload:?}");
    }
    // What was asked for needs no question: two packets in a row.
    let fast = Script::in_login(NEW).server(b"\x01\x03").server(&ok(2));
    assert_eq!(fast.run().1, [server, Event::LoggedIn]);
    let refused = Script::in_login(NEW).server(&err(1045));
    assert_eq!(refused.run().1, [Event::LoginRefused { code: 1045 }]);
}

#[test]
fn faults_name_what_was_wrong() {
    let sequence = Script::new(NEW).query().at(7).server(&ok(2));
    let expected = Fault::Sequence { side: Side::Server, expected: 1, found: 7 };
    assert_eq!(last_fault(&sequence), expected);
    assert_eq!(expected.to_string(), "server packet has sequence number 7, expected 1");
    let login = Script::in_login(NEW).at(5).client(b"?");
    assert_eq!(last_fault(&login).to_string(), "client packet has sequence number 5, expected 2");
    let empty = Script::new(NEW).query().server(b"");
    assert_eq!(last_fault(&empty).to_string(), "server sent an empty packet in reply to query");
    let unknown = Script::new(NEW).command(Command(0x77), b"");
    assert_eq!(last_fault(&unknown).to_string(), "client sent command 0x77, which is not followed");
    assert_eq!(last_fault(&Script::new(NEW).at(0).server(&ok(2))), Fault::Unasked);
    let overtaken = Script::new(NEW).query().command(Command::PING, b"").at(1).server(b"\xfbfile");
    assert_eq!(last_fault(&overtaken), Fault::Overtaken(Command::QUERY));
}

#[test]
fn nothing_is_claimed_once_let_go() {
    let script = Script::new(NEW).command(Command(0x77), b"").at(1).server(&ok(2)).query();
    let (follower, events) = script.run();
    assert!(matches!(events.last(), Some(Event::Lost(_))));
    assert!(!follower.is_idle() && !follower.is_between_commands());
    assert_eq!(follower.awaited_sequence(), None);
}

#[test]
fn dump_is_a_stream() {
    let script = Script::new(NEW).command(Command::BINLOG_DUMP, &[0; 10]).server(&[0, 1, 2]);
    let (follower, events) = script.run();
    assert_eq!(events.last(), Some(&Event::Streaming));
    assert!(follower.is_streaming());
}

#[test]
fn servers_last_word_needs_no_command() {
    let script = Script::new(NEW).at(0).server(&err(1053));
    assert_followed(&script, &[Event::ServerError { code: 1053 }]);
}

#[test]
fn made_up_reply_has_the_number_that_is_awaited() {
    let query = Script::new(CLASSIC).query();
    assert_eq!(query.run().0.awaited_sequence(), Some(1));
    let in_rows = query.clone().servers(&result_set(CLASSIC, 3));
    assert_eq!(in_rows.run().0.awaited_sequence(), Some(7));
    let (mut follower, mut events) = in_rows.run();
    feed(&mut follower, Side::Server, &[9, 0, 0, 7, 1], &mut events);
    assert_eq!(follower.awaited_sequence(), None, "within a row");
    let (mut follower, mut events) = Script::new(CLASSIC).run();
    feed(&mut follower, Side::Client, &[9, 0, 0, 0, 3], &mut events);
    assert_eq!(follower.awaited_sequence(), Some(1), "a command half sent");
    let file = query.server(b"\xfbfile").client(b"row");
    assert_eq!(file.run().0.awaited_sequence(), Some(3));
}

#[test]
fn commands_ahead_of_their_replies_are_bounded() {
    let mut ping = Vec::new();
    put_packet(&mut ping, 0, &[Command::PING.0]);
    let (mut follower, mut events) = Script::new(NEW).run();
    let many = ping.repeat(MAX_PIPELINED);
    feed(&mut follower, Side::Client, &many, &mut events);
    assert_eq!(events.last(), Some(&Event::Command(Command::PING)));
    feed(&mut follower, Side::Client, &ping, &mut events);
    assert_eq!(events.last(), Some(&Event::Lost(Fault::Pipelined)));
}

#[test]
fn names_of_commands_have_their_places() {
    for number in 0..=u8::MAX {
        let command = Command(number);
        assert_eq!(Command::NAMES[command.index()], command.name());
    }
    assert_eq!(Command::STMT_BULK_EXECUTE.name(), "stmt_bulk_execute");
    assert_eq!(Command(0x77).name(), "unknown");
}

/// One exchange, chosen at random.
#[derive(Clone, Debug)]
struct Exchange {
    kind: u8,
    rows: usize,
    status: u16,
    columns: u16,
    parameters: u16,
}

impl Exchange {
    fn add_to(&self, script: Script) -> Script {
        let Self { kind, rows, status, columns, parameters } = *self;
        let capabilities = script.capabilities;
        match kind {
            0 => script.command(Command::PING, b"").server(&ok(status)),
            1 => script
                .query()
                .servers(&result_set(capabilities, rows))
                .server(&end_of(capabilities, status)),
            2 => script.query().server(&err(1000 + status)),
            3 => script
                .query()
                .server(&ok(status | status::MORE_RESULTS))
                .servers(&result_set(capabilities, rows))
                .server(&err(1317)),
            4 => (0..rows)
                .fold(script.query().server(b"\xfbf"), |script, _| script.client(b"row"))
                .client(b"")
                .server(&ok(status)),
            5 => prepare(script, columns, parameters),
            6 => script.command(Command::STMT_CLOSE, &[1, 0, 0, 0]),
            7 => script.command(Command::STATISTICS, b"").server(b"Uptime"),
            _ => script
                .command(Command::CHANGE_USER, b"app\0\0\0")
                .server(b"\xfeplugin\0salt\0")
                .client(&[1; 20])
                .server(&ok(status)),
        }
    }
}

fn exchange() -> impl Strategy<Value = Exchange> {
    let statuses = prop::sample::select(vec![0_u16, 1, 2, 3, 0x22, 0x4002]);
    (0..9_u8, 0..4_usize, statuses, 0..3_u16, 0..3_u16).prop_map(
        |(kind, rows, status, columns, parameters)| Exchange {
            kind,
            rows,
            status,
            columns,
            parameters,
        },
    )
}

fn scripts() -> impl Strategy<Value = Script> {
    let capabilities = prop::sample::select(vec![CLASSIC, NEW]);
    (capabilities, prop::collection::vec(exchange(), 0..12)).prop_map(
        |(capabilities, exchanges)| {
            let start = Script::new(capabilities);
            exchanges.iter().fold(start, |script, exchange| exchange.add_to(script))
        },
    )
}

proptest! {
    #[test]
    fn any_split_gives_the_same_events(
        script in scripts(),
        lengths in prop::collection::vec(1..40_usize, 1..20),
    ) {
        let (whole, events) = script.run();
        let mut lengths = lengths.into_iter().cycle();
        let (split, pieces) = script.run_in_pieces(&mut |_| lengths.next().unwrap());
        prop_assert_eq!(&events, &pieces);
        prop_assert!(!events.iter().any(|event| matches!(event, Event::Lost(_))), "{:?}", events);
        prop_assert!(whole.is_between_commands() && split.is_between_commands());
        prop_assert_eq!(whole.is_idle(), split.is_idle());
    }

    #[test]
    fn no_bytes_make_it_panic(
        bytes in prop::collection::vec((any::<bool>(), prop::collection::vec(any::<u8>(), 1..60)), 0..20),
        script in scripts(),
        capabilities: u64,
    ) {
        for mut follower in [Follower::new(capabilities, 1), script.run().0] {
            let mut events = Vec::new();
            for (from_client, bytes) in &bytes {
                let side = if *from_client { Side::Client } else { Side::Server };
                feed(&mut follower, side, bytes, &mut events);
                let _ = (follower.awaited_sequence(), follower.is_idle());
            }
        }
    }
}
