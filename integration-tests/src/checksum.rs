//! Whether two servers hold the same tables: `CHECKSUM TABLE` of every user table, and the lists of all other objects.

use crate::client::{Client, Reply};
use crate::servers::Server;

const USER_SCHEMAS: &str = "NOT IN ('mysql', 'sys', 'information_schema', 'performance_schema')";

/// What a server holds: a line for each object, and one for each table with its checksum.
///
/// # Panics
/// When a statement fails.
pub fn contents(client: &mut Client) -> Vec<String> {
    let mut lines = objects(client);
    let tables = format!(
        "SELECT CONCAT('`', table_schema, '`.`', table_name, '`') FROM information_schema.tables
         WHERE table_schema {USER_SCHEMAS} AND table_type IN ('BASE TABLE', 'SYSTEM VERSIONED')
         ORDER BY 1"
    );
    for table in first_column(&query(client, &tables)) {
        let reply = query(client, &format!("CHECKSUM TABLE {table} EXTENDED"));
        let checksum = reply.rows[0][1].clone().unwrap_or_else(|| "NULL".to_owned());
        let rows = query(client, &format!("SELECT COUNT(*) FROM {table}")).scalar();
        lines.push(format!("table {table}: checksum {checksum}, {rows} rows"));
    }
    lines
}

/// Panics with the first difference between the two servers' contents.
pub fn assert_equal(left: &Server, right: &Server) {
    let (left, right) = (contents(&mut left.root()), contents(&mut right.root()));
    if let Some(difference) = first_difference(&left, &right) {
        panic!("the servers differ: {difference}");
    }
    assert!(left.iter().any(|line| line.starts_with("table ")), "there was no table to compare");
}

/// As [`assert_equal`] for tables' rows alone, column by column as text: releases differ in how they compute `CHECKSUM TABLE`.
pub fn assert_rows_equal(left: &Server, right: &Server) {
    let (left, right) = (row_sums(&mut left.root()), row_sums(&mut right.root()));
    if let Some(difference) = first_difference(&left, &right) {
        panic!("the servers differ: {difference}");
    }
    assert!(!left.is_empty(), "there was no table to compare");
}

/// A line for each column of each table with a sum over its values.
fn row_sums(client: &mut Client) -> Vec<String> {
    let columns = format!(
        "SELECT CONCAT('`', c.table_schema, '`.`', c.table_name, '`'), CONCAT('`', column_name, '`')
         FROM information_schema.columns c JOIN information_schema.tables t USING (table_schema, table_name)
         WHERE c.table_schema {USER_SCHEMAS} AND t.table_type IN ('BASE TABLE', 'SYSTEM VERSIONED')"
    );
    let columns = query(client, &columns).rows;
    let sum = |row: &Vec<Option<String>>| {
        let [table, column] = [0, 1].map(|at| row[at].clone().unwrap());
        let hash = format!("CRC32(IFNULL(HEX(CAST({column} AS BINARY)), 'NULL'))");
        let sql = format!("SELECT COUNT(*), COALESCE(SUM({hash}), 0) FROM {table}");
        let cells: Vec<String> =
            query(client, &sql).rows[0].iter().map(|cell| cell.clone().unwrap()).collect();
        format!("{table}.{column}: {}", cells.join(" rows, sum "))
    };
    let mut lines: Vec<String> = columns.iter().map(sum).collect();
    lines.sort();
    lines
}

/// The first line that only one of the two has, or that differs.
pub fn first_difference(left: &[String], right: &[String]) -> Option<String> {
    if let Some(line) = left.iter().find(|line| !right.contains(line)) {
        let name = line.split(':').next().unwrap_or_default();
        let other = right.iter().find(|other| other.split(':').next() == Some(name));
        return Some(format!("first has `{line}`, second `{}`", other.map_or("nothing", |o| o)));
    }
    let extra = right.iter().find(|line| !left.contains(line))?;
    Some(format!("only the second has `{extra}`"))
}

fn objects(client: &mut Client) -> Vec<String> {
    let sql = format!(
        "SELECT CONCAT('schema ', schema_name) FROM information_schema.schemata
           WHERE schema_name {USER_SCHEMAS}
         UNION ALL SELECT CONCAT('view ', table_schema, '.', table_name, ': ', MD5(view_definition))
           FROM information_schema.views WHERE table_schema {USER_SCHEMAS}
         UNION ALL SELECT CONCAT(routine_type, ' ', routine_schema, '.', routine_name, ': ',
           MD5(routine_definition)) FROM information_schema.routines
           WHERE routine_schema {USER_SCHEMAS}
         UNION ALL SELECT CONCAT('trigger ', trigger_schema, '.', trigger_name, ': ',
           MD5(action_statement)) FROM information_schema.triggers
           WHERE trigger_schema {USER_SCHEMAS}
         UNION ALL SELECT CONCAT('column ', table_schema, '.', table_name, '.', column_name, ': ',
           column_type) FROM information_schema.columns WHERE table_schema {USER_SCHEMAS}
         ORDER BY 1"
    );
    first_column(&query(client, &sql))
}

fn first_column(reply: &Reply) -> Vec<String> {
    reply.rows.iter().filter_map(|row| row.first().cloned().flatten()).collect()
}

fn query(client: &mut Client, sql: &str) -> Reply {
    client.query(sql).unwrap_or_else(|error| panic!("{sql}: {error}"))
}
