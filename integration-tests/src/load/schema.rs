//! The tables, procedures and triggers of the load.

use super::{Plan, types};

/// The statements that make them, in order.
pub(super) fn statements(plan: &Plan) -> Vec<String> {
    let schema = plan.schema;
    let mut list = vec![
        format!("CREATE OR REPLACE DATABASE {schema} CHARACTER SET utf8mb4"),
        format!("USE {schema}"),
        types::create_table("types"),
        "CREATE TABLE big (id BIGINT AUTO_INCREMENT PRIMARY KEY, b LONGBLOB)".to_owned(),
        "CREATE TABLE keyed (k INT PRIMARY KEY, hits INT NOT NULL, note TEXT)".to_owned(),
        "CREATE TABLE audit (id BIGINT AUTO_INCREMENT PRIMARY KEY, what VARCHAR(100))".to_owned(),
        "CREATE SEQUENCE numbers START WITH 1 CACHE 10".to_owned(),
    ];
    for worker in plan.worker_ids() {
        list.extend(of_worker(worker));
    }
    list
}

fn of_worker(w: u64) -> Vec<String> {
    vec![
        format!(
            "CREATE TABLE w{w}_log (step BIGINT, part INT, note TEXT, PRIMARY KEY (step, part))"
        ),
        format!(
            "CREATE TABLE w{w}_rows (id BIGINT AUTO_INCREMENT PRIMARY KEY, n INT, t VARCHAR(60))"
        ),
        format!("CREATE TABLE w{w}_more (id BIGINT PRIMARY KEY, n INT, t VARCHAR(60))"),
        format!("CREATE TABLE w{w}_isam (id BIGINT PRIMARY KEY, t VARCHAR(60)) ENGINE=MyISAM"),
        format!("CREATE TABLE w{w}_xa (id BIGINT PRIMARY KEY, t VARCHAR(60))"),
        format!("CREATE TABLE w{w}_none (n INT, t VARCHAR(60))"),
        format!("CREATE TABLE w{w}_trigger (n INT PRIMARY KEY)"),
        format!(
            "CREATE TRIGGER w{w}_fires AFTER INSERT ON w{w}_trigger FOR EACH ROW
             INSERT INTO audit (what) VALUES (CONCAT('w{w}: ', NEW.n))"
        ),
        format!(
            "CREATE PROCEDURE w{w}_call(first INT, how_many INT)
             BEGIN
               DECLARE i INT DEFAULT 0;
               WHILE i < how_many DO
                 INSERT INTO w{w}_rows (n, t) VALUES (first + i, 'called');
                 SET i = i + 1;
               END WHILE;
             END"
        ),
    ]
}
