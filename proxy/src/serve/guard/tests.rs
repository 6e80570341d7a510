//! The guard with the library behind it, as a client sees them.

use tokio::io::AsyncWriteExt;

use crate::serve::account::tests::sign;
use crate::serve::account::{CACHING_SHA2_PASSWORD, NATIVE_PASSWORD};
use crate::serve::testing::{Client, PASSWORD, Stage};
use crate::wire::handshake::{AuthSwitchRequest, ServerGreeting};
use crate::wire::packet::{MAX_PAYLOAD, put_packet};
use crate::wire::reply::ErrPacket;

fn error(payload: &[u8]) -> (u16, String) {
    let error = ErrPacket::parse(payload).unwrap();
    (error.code, error.message)
}

fn is_ok(payload: &[u8]) -> bool {
    payload.first() == Some(&0) && payload.len() >= 7
}

#[tokio::test]
async fn the_greeting_is_this_connections_own() {
    let stage = Stage::begun("");
    let (mut one, mut other) = (stage.connect(), stage.connect());
    let one = ServerGreeting::parse(&one.receive().await).unwrap();
    let other = ServerGreeting::parse(&other.receive().await).unwrap();
    assert_ne!(one.thread_id, other.thread_id);
    assert_ne!(one.salt, other.salt);
    assert!(one.salt.len() == 20 && one.salt.iter().all(|byte| *byte != 0 && *byte != b'$'));
    assert_eq!(
        (one.version.as_str(), one.auth_plugin.as_str()),
        ("5.5.5-10.11.19-MariaDB-log", NATIVE_PASSWORD)
    );
}

#[tokio::test]
async fn passwords_are_judged_by_the_clients_plugin() {
    let stage = Stage::begun("");
    for plugin in [NATIVE_PASSWORD, CACHING_SHA2_PASSWORD] {
        let reply = stage.connect().log_in("repl", PASSWORD, plugin).await;
        assert!(is_ok(&reply), "{plugin}: {reply:?}");
        let refused = error(&stage.connect().log_in("repl", "wrong", plugin).await);
        let message = "Access denied for user 'repl'@'127.0.0.1' (using password: YES)".to_owned();
        assert_eq!(refused, (1045, message), "{plugin}");
    }
}

#[tokio::test]
async fn unknown_users_and_foreign_hosts_are_refused_alike() {
    let stage = Stage::begun("");
    for user in ["who", "far"] {
        let (code, message) = error(&stage.connect().log_in(user, PASSWORD, NATIVE_PASSWORD).await);
        assert_eq!(code, 1045);
        assert!(message.starts_with(&format!("Access denied for user '{user}'@")), "{message}");
    }
}

#[tokio::test]
async fn a_client_with_another_plugin_is_asked_to_switch() {
    let stage = Stage::begun("");
    for (user, plugin) in [("hashed", CACHING_SHA2_PASSWORD), ("repl", "client_ed25519")] {
        let mut client = stage.connect();
        let reply = client.log_in(user, PASSWORD, plugin).await;
        let request = AuthSwitchRequest::parse(&reply).unwrap();
        assert_eq!(request.auth_plugin, NATIVE_PASSWORD);
        let salt = request.data.strip_suffix(&[0]).unwrap_or(&request.data);
        client.send(3, &sign(NATIVE_PASSWORD, PASSWORD, salt)).await;
        let (sequence, reply) = client.packet().await;
        assert!(sequence == 4 && is_ok(&reply), "{user}: {reply:?}");
        assert_eq!(client.single("SELECT 7").await, "7");
    }
}

/// The library answers the second of them only, from freed memory (datafuselabs/opensrv issue 66), if it gets both at once.
#[tokio::test]
async fn two_pipelined_queries_get_two_answers() {
    let stage = Stage::begun("");
    let mut client = stage.login("repl").await;
    let mut both = Vec::new();
    put_packet(&mut both, 0, b"\x03SELECT 'first'");
    put_packet(&mut both, 0, b"\x03SELECT 'second'");
    client.stream.write_all(&both).await.unwrap();
    for expected in ["first", "second"] {
        assert_eq!(client.receive().await, [1]);
        let (_, _, row, _) = (
            client.receive().await,
            client.receive().await,
            client.receive().await,
            client.receive().await,
        );
        assert_eq!(&row[1..], expected.as_bytes());
    }
}

#[tokio::test]
async fn packets_that_come_byte_by_byte_are_put_together() {
    let stage = Stage::begun("");
    let mut client = stage.login("repl").await;
    let mut packet = Vec::new();
    put_packet(&mut packet, 0, b"\x03SET @x = 5");
    for byte in packet {
        client.stream.write_all(&[byte]).await.unwrap();
        tokio::task::yield_now().await;
    }
    assert!(is_ok(&client.receive().await));
    assert_eq!(client.single("SELECT @x").await, "5");
}

#[tokio::test]
async fn a_sequence_number_out_of_order_ends_the_connection_with_an_error() {
    let stage = Stage::begun("");
    let mut client = stage.login("repl").await;
    client.send(3, b"\x03SELECT 1").await;
    assert_eq!(error(&client.receive().await).0, 1156);
    assert!(client.rest().await.is_empty());
    client.task.await.unwrap();
    let mut early = stage.connect();
    early.receive().await;
    early.send(0, b"whatever").await;
    assert_eq!(error(&early.receive().await).0, 1156);
    early.task.await.unwrap();
}

#[tokio::test]
async fn sizes_are_bounded_before_and_after_login() {
    let stage = Stage::begun("");
    let mut stranger = stage.connect();
    stranger.receive().await;
    // Only the header: nothing may be waited for, let alone allocated.
    stranger.stream.write_all(&[0, 0, 0xff, 1]).await.unwrap();
    assert_eq!(error(&stranger.receive().await).0, 1153);
    let mut client = stage.login("repl").await;
    assert!(is_ok(&client.query(&format!("SET @x = '{}'", "y".repeat(1 << 19))).await));
    let [l0, l1, l2, ..] = MAX_PAYLOAD.to_le_bytes();
    client.stream.write_all(&[l0, l1, l2, 0]).await.unwrap();
    assert_eq!(error(&client.receive().await).0, 1153);
    assert!(client.rest().await.is_empty());
}

#[tokio::test]
async fn broken_logins_are_told() {
    let stage = Stage::begun("");
    for login in [&b""[..], &[0xff; 40], b"\x00\x82\x00\x00"] {
        let mut client = stage.connect();
        client.receive().await;
        client.send(1, login).await;
        assert_eq!(error(&client.receive().await).0, 1043, "{login:?}");
        client.task.await.unwrap();
    }
}

#[tokio::test]
async fn a_query_that_is_no_text_is_an_error_and_no_end() {
    let stage = Stage::begun("");
    let mut client = stage.login("repl").await;
    for command in [3, 2, 4, 0x16] {
        assert_eq!(error(&client.command(&[command, 0xff, 0xfe]).await).0, 1300, "{command}");
    }
    assert_eq!(client.single("SELECT 'still here'").await, "still here");
}

#[tokio::test]
async fn what_the_library_would_answer_wrongly_is_answered_here() {
    let stage = Stage::begun("");
    let mut client = stage.login("repl").await;
    // By itself it says 67108864.
    assert_eq!(client.single("SELECT @@max_allowed_packet").await, "16777216");
    assert!(is_ok(&client.query("USE nowhere").await));
    assert_eq!(client.single("SELECT DATABASE()").await, "nowhere");
    let statistics = client.command(&[0x09]).await;
    assert!(statistics.starts_with(b"Uptime: "), "{statistics:?}");
    // COM_CHANGE_USER: it says OK, and nobody was asked for a password.
    assert_eq!(error(&client.command(b"\x11admin\0").await).0, 1235);
    assert_eq!(client.single("SELECT CURRENT_USER()").await, "repl@%");
    for command in [0x08, 0x0d, 0x1c, 0x55] {
        assert_eq!(error(&client.command(&[command]).await).0, 1047, "{command}");
    }
    assert_eq!(error(&client.command(&[]).await).0, 1047);
    assert_eq!(error(&client.command(b"\x1e").await).0, 1235);
    // COM_SET_OPTION: one statement a query is what is spoken.
    assert_eq!(client.command(&[0x1b, 1, 0]).await, [0xfe, 0, 0, 2, 0]);
    assert_eq!(error(&client.command(&[0x1b, 0, 0]).await).0, 1235);
    assert!(is_ok(&client.command(&[0x0e]).await));
}

#[tokio::test]
async fn a_reset_connection_forgets() {
    let stage = Stage::begun("");
    let mut client = stage.login("repl").await;
    client.query("SET @slave_connect_state = '0-1-1'").await;
    assert!(is_ok(&client.command(&[0x1f]).await));
    assert_eq!(client.query("SELECT @slave_connect_state").await, [1]);
    let (_, _, row, _) = (
        client.receive().await,
        client.receive().await,
        client.receive().await,
        client.receive().await,
    );
    assert_eq!(row, [0xfb]);
}

async fn prepare(client: &mut Client, text: &str) -> Vec<u8> {
    client.command(&[b"\x16", text.as_bytes()].concat()).await
}

#[tokio::test]
async fn prepared_statements_run_and_unknown_ones_are_errors() {
    let stage = Stage::begun("");
    let mut client = stage.login("repl").await;
    let prepared = prepare(&mut client, "SELECT 'x' AS one").await;
    assert_eq!((prepared[0], &prepared[5..7]), (0, &[1, 0][..]));
    let id = [prepared[1], prepared[2], prepared[3], prepared[4]];
    let (_definition, _eof) = (client.receive().await, client.receive().await);
    let execute = |id: [u8; 4]| [&[0x17][..], &id, &[0, 1, 0, 0, 0]].concat();
    assert_eq!(client.command(&execute(id)).await, [1]);
    let (_, _, row, _) = (
        client.receive().await,
        client.receive().await,
        client.receive().await,
        client.receive().await,
    );
    assert_eq!(row, [0, 0, 1, b'x']);
    // COM_STMT_SEND_LONG_DATA and COM_STMT_CLOSE have no answer; what follows has.
    client.send(0, &[&[0x18][..], &id, &[0, 0, 1, 2, 3]].concat()).await;
    client.send(0, &[&[0x19][..], &id].concat()).await;
    for command in [execute(id), execute([9; 4]), vec![0x17, 1], [&[0x1a][..], &id].concat()] {
        assert_eq!(error(&client.command(&command).await).0, 1243, "{command:?}");
    }
    assert_eq!(error(&prepare(&mut client, "SELECT ?").await).0, 1064);
}

#[tokio::test]
async fn replicas_register_and_need_the_privilege() {
    let stage = Stage::begun("");
    let register =
        b"\x15\x02\x00\x00\x00\x0fmy-replica-host\x07repuser\x07reppass\x47\x0d\0\0\0\0\0\0\0\0";
    let mut replica = stage.login("repl").await;
    assert!(is_ok(&replica.command(register).await));
    let registered = stage.service.connections.find(u64::from(replica.id)).unwrap();
    let registration = registered.registration().unwrap();
    assert_eq!((registration.server_id, registration.port), (2, 3399));
    assert_eq!(registration.host, "my-replica-host");
    for len in 1..register.len() - 8 {
        assert_eq!(error(&replica.command(&register[..len]).await).0, 1835, "{len}");
    }
    let mut other = stage.login("nobody").await;
    assert_eq!(error(&other.command(register).await).0, 1227);
    let dump = b"\x12\x04\0\0\0\0\0\x02\0\0\0";
    assert_eq!(error(&other.command(dump).await).0, 1227);
    assert_eq!(other.single("SELECT 1").await, "1");
}

#[tokio::test]
async fn kill_ends_another_connection() {
    let stage = Stage::begun("");
    let (mut victim, mut killer) = (stage.login("repl").await, stage.login("repl").await);
    assert!(is_ok(&killer.command(&[&[0x0c][..], &victim.id.to_le_bytes()].concat()).await));
    assert!(victim.rest().await.is_empty());
    assert_eq!(error(&killer.query("KILL 99999").await).0, 1094);
}

#[tokio::test]
async fn a_port_that_knows_no_version_says_so() {
    let stage = Stage::empty();
    let (code, message) = error(&stage.connect().receive().await);
    assert!(code == 1105 && message.contains("has not reached its upstream"), "{message}");
}
