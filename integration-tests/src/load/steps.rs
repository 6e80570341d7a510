//! The steps a worker takes: each one kind of thing that applications do.

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Error, Params, params};

use super::{Worker, types};

const MIB: u64 = 1 << 20;

/// Bounds a table: statements over all its rows would write more and more in a long run.
fn keep_newest(table: &str, ids: u64) -> String {
    format!("DELETE FROM {table} WHERE id + {ids} <= (SELECT MAX(id) FROM {table})")
}

impl Worker {
    /// Notes the step, then does it.
    pub(super) async fn take_step(&mut self, conn: &mut Conn) -> Result<(), Error> {
        if self.plan.big_rows && self.id == 0 && self.step % 40 == 20 {
            return self.big_row(conn).await;
        }
        let kinds = if self.plan.crash_unsafe { 19 } else { 12 };
        match self.rng.below(kinds) {
            0 => self.insert_types(conn).await,
            1 => self.change_types(conn).await,
            2 => self.savepoints(conn).await,
            3 => self.rolled_back(conn).await,
            4 => self.temporary_table(conn).await,
            5 => self.load_data(conn).await,
            6 => self.multi_table(conn).await,
            7 => self.on_duplicate(conn).await,
            8 => self.insert_select(conn).await,
            9 => self.without_autocommit(conn).await,
            10 => self.minimal_image(conn).await,
            11 => self.prepared(conn).await,
            12 => self.create_select(conn).await,
            13 => self.alter(conn).await,
            14 => self.views_and_routines(conn).await,
            15 => self.not_transactional(conn).await,
            16 => self.xa(conn).await,
            17 => self.triggers_and_calls(conn).await,
            _ => self.truncate_and_sequence(conn).await,
        }
    }

    fn note(&self, part: u64, what: &str) -> String {
        format!("INSERT INTO w{}_log VALUES ({}, {part}, '{what}')", self.id, self.step)
    }

    async fn all(&self, conn: &mut Conn, statements: &[String]) -> Result<(), Error> {
        for sql in statements {
            conn.query_drop(sql).await?;
        }
        Ok(())
    }

    async fn insert_types(&mut self, conn: &mut Conn) -> Result<(), Error> {
        let rows = 1 + self.rng.below(12);
        conn.query_drop(types::insert(&mut self.rng, "types", rows)).await
    }

    async fn change_types(&mut self, conn: &mut Conn) -> Result<(), Error> {
        let set =
            format!("{}, {}", types::assignment(&mut self.rng), types::assignment(&mut self.rng));
        let divisor = 2 + self.rng.below(9);
        let update = format!("UPDATE types SET {set} WHERE id MOD {divisor} = 0 ORDER BY id");
        let delete =
            format!("DELETE FROM types WHERE id MOD {} = 1 ORDER BY id LIMIT 3", divisor * 3);
        self.all(conn, &[update, delete, keep_newest("types", 100)]).await
    }

    async fn savepoints(&mut self, conn: &mut Conn) -> Result<(), Error> {
        let list = [
            "START TRANSACTION".to_owned(),
            self.note(0, "kept"),
            "SAVEPOINT a".to_owned(),
            self.note(1, "undone"),
            format!("UPDATE w{}_rows SET n = n + 1 WHERE id < 50", self.id),
            "ROLLBACK TO SAVEPOINT a".to_owned(),
            "SAVEPOINT b".to_owned(),
            self.note(2, "kept too"),
            "RELEASE SAVEPOINT b".to_owned(),
            "COMMIT".to_owned(),
        ];
        self.all(conn, &list).await
    }

    async fn rolled_back(&mut self, conn: &mut Conn) -> Result<(), Error> {
        let mut list = vec!["BEGIN".to_owned(), self.note(0, "rolled back")];
        if self.plan.crash_unsafe {
            // What MyISAM took stays, so this transaction is written although it is rolled back.
            list.push(format!("REPLACE INTO w{}_isam VALUES ({}, 'stays')", self.id, self.step));
        }
        list.push(format!("DELETE FROM w{}_rows", self.id));
        list.push("ROLLBACK".to_owned());
        self.all(conn, &list).await
    }

    async fn temporary_table(&mut self, conn: &mut Conn) -> Result<(), Error> {
        let list = [
            "CREATE OR REPLACE TEMPORARY TABLE scratch (n INT, t VARCHAR(60))".to_owned(),
            "INSERT INTO scratch SELECT seq, CONCAT('scratch ', seq) FROM seq_1_to_50".to_owned(),
            format!(
                "INSERT INTO w{}_rows (n, t) SELECT n, t FROM scratch WHERE n MOD 7 = 0",
                self.id
            ),
            "DROP TEMPORARY TABLE scratch".to_owned(),
        ];
        self.all(conn, &list).await
    }

    async fn load_data(&mut self, conn: &mut Conn) -> Result<(), Error> {
        let file = self.dir.path().join("load.csv");
        let lines: String =
            (0..500).map(|n| format!("{n}\tline {n} of step {}\n", self.step)).collect();
        std::fs::write(&file, lines).map_err(mysql_async::IoError::from)?;
        let table = format!("w{}_none", self.id);
        conn.query_drop(format!("LOAD DATA LOCAL INFILE '{}' INTO TABLE {table}", file.display()))
            .await
    }

    async fn multi_table(&mut self, conn: &mut Conn) -> Result<(), Error> {
        let w = self.id;
        let list = [
            format!(
                "INSERT IGNORE INTO w{w}_more SELECT id, n, t FROM w{w}_rows ORDER BY id LIMIT 200"
            ),
            format!(
                "UPDATE w{w}_rows r JOIN w{w}_more m ON r.id = m.id
                 SET r.t = CONCAT('both ', r.id), m.n = {} WHERE r.id MOD 3 = 0",
                self.step
            ),
            format!(
                "DELETE r, m FROM w{w}_rows r JOIN w{w}_more m ON r.id = m.id WHERE r.id MOD 11 = {}",
                self.rng.below(11)
            ),
        ];
        self.all(conn, &list).await
    }

    async fn on_duplicate(&mut self, conn: &mut Conn) -> Result<(), Error> {
        let key = self.rng.below(40);
        let list = [
            format!(
                "INSERT INTO keyed VALUES ({key}, 1, 'w{}') ON DUPLICATE KEY UPDATE hits = hits + 1",
                self.id
            ),
            format!("REPLACE INTO keyed VALUES ({}, 0, REPEAT('r', 300))", key + 1),
        ];
        self.all(conn, &list).await
    }

    async fn insert_select(&mut self, conn: &mut Conn) -> Result<(), Error> {
        let rows = 1000 + self.rng.below(4000);
        let w = self.id;
        let list = [
            format!("INSERT INTO w{w}_rows (n, t) SELECT seq, MD5(seq) FROM seq_1_to_{rows}"),
            format!(
                "UPDATE w{w}_rows SET n = n + 1, t = CONCAT(t, 'x') WHERE id MOD 2 = 0 AND LENGTH(t) < 59"
            ),
            format!("DELETE FROM w{w}_rows WHERE id MOD 4 < 3 ORDER BY id LIMIT 3000"),
            keep_newest(&format!("w{w}_rows"), 4000),
        ];
        self.all(conn, &list).await
    }

    async fn without_autocommit(&mut self, conn: &mut Conn) -> Result<(), Error> {
        let list = [
            "SET autocommit = 0".to_owned(),
            self.note(0, "first"),
            self.note(1, "second"),
            "COMMIT".to_owned(),
            self.note(2, "third"),
            // Commits by itself.
            "SET autocommit = 1".to_owned(),
        ];
        let outcome = self.all(conn, &list).await;
        if outcome.is_err() {
            conn.query_drop("ROLLBACK").await?;
            conn.query_drop("SET autocommit = 1").await?;
        }
        outcome
    }

    async fn minimal_image(&mut self, conn: &mut Conn) -> Result<(), Error> {
        let image = self.rng.pick(&["MINIMAL", "NOBLOB"]);
        conn.query_drop(format!("SET SESSION binlog_row_image = '{image}'")).await?;
        let outcome = self.change_types(conn).await;
        conn.query_drop("SET SESSION binlog_row_image = 'FULL'").await?;
        outcome
    }

    async fn prepared(&mut self, conn: &mut Conn) -> Result<(), Error> {
        let insert = format!("INSERT INTO w{}_log VALUES (:step, :part, :note)", self.id);
        let step = self.step;
        let rows: Vec<Params> = (10..14_u64)
            .map(|part| params! { "step" => step, "part" => part, "note" => "ä".repeat(300) })
            .collect();
        conn.exec_batch(insert, rows).await?;
        let count = format!("SELECT COUNT(*) FROM w{}_log WHERE step = ?", self.id);
        let seen: Option<u64> = conn.exec_first(count, (step,)).await?;
        assert_eq!(seen, Some(4), "a worker does not see its own rows");
        Ok(())
    }

    async fn create_select(&mut self, conn: &mut Conn) -> Result<(), Error> {
        let w = self.id;
        let list = [
            format!(
                "CREATE OR REPLACE TABLE w{w}_copy ENGINE=InnoDB SELECT id, n, t FROM w{w}_rows LIMIT 500"
            ),
            format!("CREATE TABLE IF NOT EXISTS w{w}_like LIKE w{w}_copy"),
            format!("INSERT INTO w{w}_like SELECT * FROM w{w}_copy LIMIT 5"),
            format!("DROP TABLE IF EXISTS w{w}_copy, w{w}_like"),
        ];
        let kept = if self.rng.one_in(2) { list.len() } else { 1 };
        self.all(conn, &list[..kept]).await
    }

    async fn alter(&mut self, conn: &mut Conn) -> Result<(), Error> {
        let w = self.id;
        let list = [
            format!(
                "ALTER TABLE w{w}_none ADD COLUMN IF NOT EXISTS extra INT DEFAULT {}",
                self.step
            ),
            format!("INSERT INTO w{w}_none (n, t) VALUES (-1, 'altered')"),
            format!("ALTER TABLE w{w}_none ADD INDEX IF NOT EXISTS by_n (n)"),
            format!("ALTER TABLE w{w}_none DROP COLUMN IF EXISTS extra"),
        ];
        self.all(conn, &list).await
    }

    async fn views_and_routines(&mut self, conn: &mut Conn) -> Result<(), Error> {
        let w = self.id;
        let list = [
            format!(
                "CREATE OR REPLACE VIEW w{w}_view AS SELECT n, t FROM w{w}_rows WHERE n < {}",
                self.step
            ),
            format!(
                "CREATE OR REPLACE FUNCTION w{w}_plus(n INT) RETURNS INT DETERMINISTIC RETURN n + {}",
                self.step
            ),
            format!("INSERT INTO w{w}_rows (n, t) VALUES (w{w}_plus(5), 'function')"),
        ];
        self.all(conn, &list).await
    }

    async fn not_transactional(&mut self, conn: &mut Conn) -> Result<(), Error> {
        let (w, first) = (self.id, self.step * 100);
        let list = [
            format!("REPLACE INTO w{w}_isam SELECT {first} + seq, 'isam' FROM seq_1_to_20"),
            format!("UPDATE w{w}_isam SET t = CONCAT('up ', id) WHERE id MOD 5 = 0"),
            format!("DELETE FROM w{w}_isam WHERE id MOD 9 = 0"),
        ];
        self.all(conn, &list).await?;
        // Fails at its second row; the first one stays in the table and is written to the binlog.
        let half =
            format!("INSERT INTO w{w}_isam VALUES ({}, 'half'), ({0}, 'twice')", first + 50_000);
        match conn.query_drop(half).await {
            Err(Error::Server(error)) if error.code == 1062 => Ok(()),
            other => other,
        }
    }

    async fn xa(&mut self, conn: &mut Conn) -> Result<(), Error> {
        let xid = format!("'w{}-{}'", self.id, self.step);
        let end: &[&str] = match self.rng.below(3) {
            0 => &["XA PREPARE", "XA COMMIT"],
            1 => &["XA PREPARE", "XA ROLLBACK"],
            _ => &["XA COMMIT one phase"],
        };
        let mut list = vec![
            format!("XA START {xid}"),
            format!("REPLACE INTO w{}_xa VALUES ({}, 'xa')", self.id, self.step),
            format!("XA END {xid}"),
        ];
        list.extend(end.iter().map(|verb| match verb.strip_suffix(" one phase") {
            Some(verb) => format!("{verb} {xid} ONE PHASE"),
            None => format!("{verb} {xid}"),
        }));
        self.all(conn, &list).await
    }

    async fn triggers_and_calls(&mut self, conn: &mut Conn) -> Result<(), Error> {
        let (w, step) = (self.id, self.step);
        let list = [
            format!("INSERT IGNORE INTO w{w}_trigger SELECT {step} * 10 + seq FROM seq_1_to_5"),
            format!("CALL w{w}_call({step}, {})", 1 + self.rng.below(20)),
        ];
        self.all(conn, &list).await
    }

    async fn truncate_and_sequence(&mut self, conn: &mut Conn) -> Result<(), Error> {
        // One of them has no primary key: it is not emptied row by row, that takes a replica for ever.
        let emptied = self.rng.pick(&["more", "more", "none"]);
        let list = [
            format!("INSERT INTO w{}_none (n, t) VALUES (NEXTVAL(numbers), 'next')", self.id),
            format!("TRUNCATE TABLE w{}_{emptied}", self.id),
            "DO 1".to_owned(),
        ];
        self.all(conn, &list).await
    }

    /// Rows over one packet, and over the usual bounds of everything. Sent as statement text once, made on the server once.
    async fn big_row(&mut self, conn: &mut Conn) -> Result<(), Error> {
        let blob = "b".repeat(usize::try_from(20 * MIB).unwrap());
        conn.query_drop(format!("INSERT INTO big (b) VALUES ('{blob}')")).await?;
        drop(blob);
        let sent = vec![0xe5_u8; usize::try_from(17 * MIB).unwrap()];
        conn.exec_drop("INSERT INTO big (b) VALUES (?)", (sent,)).await?;
        conn.query_drop(format!("INSERT INTO big (b) VALUES (REPEAT('B', {}))", 40 * MIB)).await?;
        conn.query_drop("UPDATE big SET b = CONCAT('+', LEFT(b, 1000)) ORDER BY id LIMIT 1").await
    }
}
