//! The table of many column types, and values at their edges.

use crate::rng::Rng;

type Value = fn(&mut Rng) -> String;

/// Name, type, and a literal for it. NULL comes from [`literal`].
const COLUMNS: &[(&str, &str, Value)] = &[
    ("t1", "TINYINT", |r| r.pick(&["-128", "127", "0"]).to_owned()),
    ("t2", "SMALLINT UNSIGNED", |r| r.pick(&["65535", "0", "256"]).to_owned()),
    ("t3", "MEDIUMINT", |r| r.pick(&["-8388608", "8388607", "-1"]).to_owned()),
    ("t4", "INT", |r| r.pick(&["-2147483648", "2147483647", "77"]).to_owned()),
    ("t5", "BIGINT UNSIGNED", |r| r.next().to_string()),
    ("f", "FLOAT", |r| format!("{}e{}", r.below(1000), r.below(30))),
    ("d", "DOUBLE", |r| format!("-{}e-{}", r.below(100_000), r.below(200))),
    ("n1", "DECIMAL(65,30)", |r| format!("-{}.{}", r.next(), r.next())),
    ("n2", "DECIMAL(10,0)", |r| r.pick(&["-9999999999", "9999999999", "1"]).to_owned()),
    ("n3", "DECIMAL(9,9)", |r| format!("0.{:09}", r.below(1_000_000_000))),
    ("b1", "BIT(1)", |r| format!("b'{}'", r.below(2))),
    ("b13", "BIT(13)", |r| format!("b'{:b}'", r.below(8192))),
    ("b64", "BIT(64)", |r| format!("b'{:b}'", r.next())),
    ("y", "YEAR", |r| r.pick(&["1901", "2155", "0"]).to_owned()),
    ("dt", "DATE", |r| r.pick(&["'1000-01-01'", "'9999-12-31'"]).to_owned()),
    ("tm", "TIME", |r| r.pick(&["'-838:59:59'", "'838:59:59'"]).to_owned()),
    ("tm6", "TIME(6)", |r| format!("'-12:34:56.{:06}'", r.below(1_000_000))),
    ("dtm", "DATETIME", |_| "'9999-12-31 23:59:59'".to_owned()),
    ("dtm3", "DATETIME(3)", |r| format!("'2020-02-29 01:02:03.{:03}'", r.below(1000))),
    ("ts", "TIMESTAMP NULL", |_| "'2038-01-19 03:14:07'".to_owned()),
    ("ts5", "TIMESTAMP(5) NULL", |r| format!("'2001-01-01 00:00:01.{:05}'", r.below(100_000))),
    ("c", "CHAR(10)", |r| text(r, 10)),
    ("c255", "CHAR(255) CHARACTER SET utf8mb4", |r| text(r, 255)),
    ("vl", "VARCHAR(50) CHARACTER SET latin1", |r| text(r, 50)),
    ("v2", "VARCHAR(2000)", |r| text(r, 2000)),
    ("bin", "BINARY(16)", |r| bytes(r, 16)),
    ("vb", "VARBINARY(300)", |r| bytes(r, 300)),
    ("tb", "TINYBLOB", |r| bytes(r, 255)),
    ("tt", "TINYTEXT", |r| text(r, 127)),
    ("bb", "BLOB", |r| bytes(r, 9000)),
    ("tx", "TEXT", |r| text(r, 3000)),
    ("mb", "MEDIUMBLOB", |r| format!("REPEAT('m', {})", seldom_long(r, 100_000))),
    ("lt", "LONGTEXT", |r| format!("REPEAT('l', {})", seldom_long(r, 70_000))),
    ("e", "ENUM('a','b','c')", |r| r.pick(&["'a'", "'b'", "'c'"]).to_owned()),
    ("s", "SET('x','y','z')", |r| r.pick(&["''", "'x,z'", "'x,y,z'"]).to_owned()),
    ("j", "JSON", |r| format!("'{{\"k\": [{}, null, \"{}\"]}}'", r.below(99), r.below(99))),
    ("g", "GEOMETRY", |r| format!("ST_GeomFromText('LINESTRING(0 0,{} 1)')", r.below(9))),
    ("p", "POINT", |r| format!("Point({}, 2)", r.below(1000))),
    ("u", "UUID", |r| format!("'123e4567-e89b-12d3-a456-4266141{:05}'", r.below(100_000))),
    ("i6", "INET6", |r| format!("'2001:db8::{:x}'", r.below(65536))),
    ("i4", "INET4", |r| format!("'10.0.0.{}'", r.below(256))),
    ("cc", "TEXT COMPRESSED", |r| format!("REPEAT('c', {})", r.below(5000))),
    ("cb", "VARBINARY(500) COMPRESSED", |r| bytes(r, 500)),
];

/// `CREATE TABLE` of the table with all types, the wide enum and set too, generated and invisible columns.
pub(super) fn create_table(name: &str) -> String {
    let mut columns = vec!["id BIGINT AUTO_INCREMENT PRIMARY KEY".to_owned()];
    columns.extend(COLUMNS.iter().map(|(name, kind, _)| format!("{name} {kind}")));
    columns.push(format!("e300 ENUM({})", members(300)));
    columns.push(format!("s64 SET({})", members(64)));
    columns.push("gv BIGINT AS (CAST(t4 AS SIGNED) + 1) VIRTUAL".to_owned());
    columns.push("gs BIGINT AS (CAST(t4 AS SIGNED) * 2) STORED".to_owned());
    columns.push("inv INT INVISIBLE DEFAULT 7".to_owned());
    format!("CREATE OR REPLACE TABLE {name} ({}) ENGINE=InnoDB", columns.join(", "))
}

/// An INSERT of some rows with random values.
pub(super) fn insert(rng: &mut Rng, table: &str, rows: u64) -> String {
    let names: Vec<&str> = COLUMNS.iter().map(|(name, ..)| *name).collect();
    let row = |rng: &mut Rng| {
        let values: Vec<String> = COLUMNS.iter().map(|(.., value)| literal(rng, *value)).collect();
        format!("({}, {}, {})", values.join(", "), 1 + rng.below(300), rng.next() >> 1)
    };
    let rows: Vec<String> = (0..rows).map(|_| row(rng)).collect();
    format!("INSERT INTO {table} ({}, e300, s64) VALUES {}", names.join(", "), rows.join(", "))
}

/// An assignment to a random column.
pub(super) fn assignment(rng: &mut Rng) -> String {
    let index = usize::try_from(rng.below(u64::try_from(COLUMNS.len()).unwrap())).unwrap();
    let (name, _, value) = COLUMNS[index];
    format!("{name} = {}", literal(rng, value))
}

fn literal(rng: &mut Rng, value: Value) -> String {
    if rng.one_in(4) { "NULL".to_owned() } else { value(rng) }
}

/// A length. Were most of them long, an update of all rows would write little else.
fn seldom_long(rng: &mut Rng, longest: u64) -> u64 {
    let bound = if rng.one_in(16) { longest } else { 2000 };
    rng.below(bound)
}

fn members(count: u64) -> String {
    let names: Vec<String> = (0..count).map(|n| format!("'m{n}'")).collect();
    names.join(",")
}

fn text(rng: &mut Rng, longest: u64) -> String {
    let length = rng.below(longest + 1);
    let letters: String = (0..length).map(|_| rng.pick(&["a", "Z", " ", "é", "0"])).collect();
    format!("'{letters}'")
}

fn bytes(rng: &mut Rng, longest: u64) -> String {
    let length = rng.below(longest + 1);
    let hex: String = (0..length).map(|_| format!("{:02x}", rng.below(256))).collect();
    format!("x'{hex}'")
}
