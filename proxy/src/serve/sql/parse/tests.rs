//! What real clients send, read as they mean it.

use super::super::statement::{Moment, PurgeUpTo};
use super::*;

fn system(global: bool, name: &str) -> Expression {
    Expression::SystemVariable(SystemName { global, name: name.to_owned() })
}

fn select(text: &str) -> Vec<SelectItem> {
    match parse(text) {
        Ok(Statement::Select { items, .. }) => items,
        other => panic!("{text}: {other:?}"),
    }
}

fn names(text: &str) -> Vec<String> {
    select(text).into_iter().map(|item| item.name).collect()
}

fn set(text: &str) -> Vec<Assignment> {
    match parse(text) {
        Ok(Statement::Set(assignments)) => assignments,
        other => panic!("{text}: {other:?}"),
    }
}

fn show(text: &str) -> Show {
    match parse(text) {
        Ok(Statement::Show(show)) => show,
        other => panic!("{text}: {other:?}"),
    }
}

#[test]
fn column_names_repeat_the_clients_spelling() {
    assert_eq!(names("SELECT UNIX_TIMESTAMP()"), ["UNIX_TIMESTAMP()"]);
    assert_eq!(names("SELECT @@GLOBAL.gtid_domain_id"), ["@@GLOBAL.gtid_domain_id"]);
    assert_eq!(
        names("SELECT binlog_gtid_pos('mbin.000001',4)"),
        ["binlog_gtid_pos('mbin.000001',4)"]
    );
    assert_eq!(names("select @@version_comment limit 1"), ["@@version_comment"]);
    assert_eq!(names("SELECT VERSION() AS version"), ["version"]);
    assert_eq!(names("select  @x  , 'lit' , 1 one"), ["@x", "lit", "one"]);
    assert_eq!(names("select DATABASE(), USER() limit 1"), ["DATABASE()", "USER()"]);
}

#[test]
fn expressions_are_read() {
    let items = select("SELECT @master_binlog_checksum, @@SESSION.`Sql_Mode`, -3, NULL, version()");
    let expressions: Vec<_> = items.into_iter().map(|item| item.expression).collect();
    assert_eq!(
        expressions,
        [
            Expression::UserVariable("master_binlog_checksum".to_owned()),
            system(false, "sql_mode"),
            Expression::Integer(-3),
            Expression::Null,
            Expression::Call { function: "version".to_owned(), arguments: Vec::new() },
        ]
    );
}

#[test]
fn a_limit_may_leave_no_row() {
    let one_row = |text| match parse(text) {
        Ok(Statement::Select { one_row, .. }) => one_row,
        other => panic!("{other:?}"),
    };
    assert!(one_row("SELECT 1 FROM DUAL LIMIT 1"));
    assert!(!one_row("SELECT 1 LIMIT 0"));
    assert!(!one_row("SELECT 1 LIMIT 1, 5"));
}

#[test]
fn set_takes_several_of_all_kinds() {
    assert_eq!(
        set("SET @Master_Binlog_Checksum = 'NONE', @b := @@global.binlog_checksum"),
        [
            Assignment::User {
                name: "master_binlog_checksum".to_owned(),
                value: Expression::Text("NONE".to_owned())
            },
            Assignment::User { name: "b".to_owned(), value: system(true, "binlog_checksum") },
        ]
    );
    assert_eq!(
        set("SET AUTOCOMMIT = 0, SESSION sql_mode='', @@session.wait_timeout=5"),
        [
            Assignment::System {
                variable: SystemName { global: false, name: "autocommit".to_owned() },
                value: Expression::Integer(0)
            },
            Assignment::System {
                variable: SystemName { global: false, name: "sql_mode".to_owned() },
                value: Expression::Text(String::new())
            },
            Assignment::System {
                variable: SystemName { global: false, name: "wait_timeout".to_owned() },
                value: Expression::Integer(5)
            },
        ]
    );
    assert_eq!(
        set("SET NAMES utf8mb4 COLLATE utf8mb4_bin"),
        [Assignment::Names("utf8mb4".to_owned())]
    );
    assert_eq!(
        set("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED"),
        [Assignment::Transaction]
    );
}

#[test]
fn show_and_its_filters() {
    assert_eq!(
        show("SHOW VARIABLES LIKE 'SERVER_ID'"),
        Show::Variables(Filter::AnyOf(vec![Pattern::Like("SERVER_ID".to_owned())]))
    );
    assert_eq!(
        show("show global variables where variable_name in ('a', 'b') or Variable_name = 'c';"),
        Show::Variables(Filter::AnyOf(vec![
            Pattern::Exact("a".to_owned()),
            Pattern::Exact("b".to_owned()),
            Pattern::Exact("c".to_owned()),
        ]))
    );
    assert_eq!(show("SHOW MASTER STATUS"), Show::MasterStatus);
    assert_eq!(show("SHOW BINLOG STATUS"), Show::MasterStatus);
    assert_eq!(show("SHOW BINARY LOGS"), Show::BinaryLogs);
    assert_eq!(show("SHOW MASTER LOGS"), Show::BinaryLogs);
    assert_eq!(show("SHOW REPLICA HOSTS"), Show::ReplicaHosts);
    assert_eq!(show("SHOW FULL PROCESSLIST"), Show::ProcessList);
    assert_eq!(show("SHOW GRANTS FOR CURRENT_USER()"), Show::Grants);
    assert_eq!(
        show("SHOW BINLOG EVENTS IN 'b.000002' FROM 4 LIMIT 2, 10"),
        Show::BinlogEvents(EventRange {
            file: Some("b.000002".to_owned()),
            from: Some(4),
            skip: 2,
            rows: Some(10)
        })
    );
    assert_eq!(show("show count(*) warnings"), Show::WarningCount("@@session.warning_count"));
}

#[test]
fn kill_use_and_transactions() {
    assert_eq!(parse("KILL 7"), Ok(Statement::Kill { id: 7, query_only: false }));
    assert_eq!(parse("kill query 7"), Ok(Statement::Kill { id: 7, query_only: true }));
    assert_eq!(
        parse("USE `information_schema`"),
        Ok(Statement::Use("information_schema".to_owned()))
    );
    assert_eq!(parse("START TRANSACTION READ ONLY"), Ok(Statement::Transaction));
}

#[test]
fn a_source_is_altered_by_name() {
    let altered = Statement::AlterSource { name: "main".to_owned(), start: "current".to_owned() };
    assert_eq!(
        parse("ALTER SOURCE main START = 'current'"),
        parse("alter source `main` start='current';")
    );
    assert_eq!(parse("ALTER SOURCE main START = 'current'"), Ok(altered));
    let continued = Statement::ContinueSource { name: "main".to_owned() };
    assert_eq!(parse("alter source `main` continue;"), Ok(continued));
    assert_eq!(parse("ALTER SOURCE main CONTINUE 5"), Err(ParseError::Syntax(27)));
    assert_eq!(parse("ALTER SOURCE main"), Err(ParseError::Syntax(17)));
    assert_eq!(parse("ALTER SOURCE main START = current"), Err(ParseError::Syntax(26)));
    assert_eq!(parse("ALTER TABLE t ADD c INT"), Err(ParseError::Unsupported));
}

#[test]
fn purges_as_people_and_scripts_write_them() {
    let file = Statement::Purge(PurgeUpTo::File("binlog.000007".to_owned()));
    assert_eq!(parse("PURGE BINARY LOGS TO 'binlog.000007';"), Ok(file));
    let moment = |text: &str| match parse(text) {
        Ok(Statement::Purge(PurgeUpTo::Moment(moment))) => moment,
        other => panic!("{text}: {other:?}"),
    };
    let night = Expression::Text("2026-01-02 03:04:05".to_owned());
    let expected = Moment { from: night, before: 0 };
    assert_eq!(moment("purge master logs before '2026-01-02 03:04:05'"), expected);
    let now = |before| Moment {
        from: Expression::Call { function: "now".to_owned(), arguments: Vec::new() },
        before,
    };
    assert_eq!(moment("PURGE BINARY LOGS BEFORE NOW() - INTERVAL 3 DAY"), now(3 * 86_400));
    assert_eq!(moment("PURGE BINARY LOGS BEFORE DATE_SUB(NOW(), INTERVAL '2' hour)"), now(7200));
    assert_eq!(parse("PURGE BINARY LOGS"), Err(ParseError::Syntax(17)));
    assert_eq!(parse("PURGE BINARY LOGS TO 7"), Err(ParseError::Syntax(21)));
    for text in ["BEFORE NOW() - 3", "BEFORE NOW() - INTERVAL 3", "BEFORE NOW() - INTERVAL -1 DAY"]
    {
        let text = format!("PURGE BINARY LOGS {text}");
        assert!(matches!(parse(&text), Err(ParseError::Syntax(_))), "{text}");
    }
    for text in ["FLUSH LOGS", "flush local binary logs", "FLUSH NO_WRITE_TO_BINLOG LOGS"] {
        assert_eq!(parse(text), Ok(Statement::FlushLogs), "{text}");
    }
    assert_eq!(parse("FLUSH TABLES"), Err(ParseError::Unsupported));
    for text in ["RESET MASTER", "RESET MASTER TO 3", "RESET BINARY LOGS AND GTIDS"] {
        let parsed = parse(text);
        assert!(matches!(parsed, Ok(Statement::ResetLog)), "{text}: {parsed:?}");
    }
    assert_eq!(parse("RESET SLAVE"), Err(ParseError::Unsupported));
}

#[test]
fn what_is_not_ours_is_told_apart_from_what_is_broken() {
    assert_eq!(parse("select $$"), Err(ParseError::Syntax(7)));
    assert_eq!(parse("SELECT"), Err(ParseError::Syntax(6)));
    assert_eq!(parse("SELECT 1; SELECT 2"), Err(ParseError::Syntax(10)));
    assert_eq!(parse("SET @x"), Err(ParseError::Syntax(6)));
    assert_eq!(parse("  /* ping */ "), Err(ParseError::Empty));
    for text in ["INSERT INTO t VALUES (1)", "SELECT * FROM t", "SELECT 1 FROM t", "SHOW ENGINES"] {
        assert_eq!(parse(text), Err(ParseError::Unsupported), "{text}");
    }
}

#[test]
fn nesting_is_bounded() {
    let deep = format!("SELECT {}1{}", "f(".repeat(100_000), ")".repeat(100_000));
    assert!(matches!(parse(&deep), Err(ParseError::Syntax(_))));
    let deep = format!("SHOW VARIABLES WHERE {}", "(".repeat(100_000));
    assert!(matches!(parse(&deep), Err(ParseError::Syntax(_))));
}
