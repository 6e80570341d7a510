//! Which global privileges SHOW GRANTS names.

/// The privileges granted on `*.*`, in capitals. Lines carry password hashes: they are never shown.
pub(super) fn global(lines: &[String]) -> Vec<String> {
    let lists = lines.iter().filter_map(|line| {
        let rest = line.strip_prefix("GRANT ")?;
        rest.split_once(" ON *.* TO ").map(|(list, _)| list)
    });
    lists.flat_map(|list| list.split(',')).map(|name| name.trim().to_uppercase()).collect()
}

/// Whether one of several names for a privilege is among them.
pub(super) fn has(granted: &[String], names: &[&str]) -> bool {
    granted.iter().any(|name| name == "ALL PRIVILEGES" || names.contains(&name.as_str()))
}

/// `user@host` of CURRENT_USER() as a GRANT wants it.
pub(super) fn quoted_account(account: &str) -> String {
    let (user, host) = account.rsplit_once('@').unwrap_or((account, "%"));
    let quote = |text: &str| format!("'{}'", text.replace('\\', "\\\\").replace('\'', "''"));
    format!("{}@{}", quote(user), quote(host))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn granted(lines: &[&str]) -> Vec<String> {
        global(&lines.iter().map(|line| (*line).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn only_global_privileges_count() {
        let lines = [
            "GRANT REPLICATION SLAVE, BINLOG MONITOR ON *.* TO `u`@`%` IDENTIFIED BY PASSWORD '*0123'",
            "GRANT SELECT, INSERT ON `d`.* TO `u`@`%`",
            "GRANT `role` TO `u`@`%`",
        ];
        assert_eq!(granted(&lines), ["REPLICATION SLAVE", "BINLOG MONITOR"]);
    }

    #[test]
    fn all_privileges_has_each() {
        let all = granted(&["GRANT ALL PRIVILEGES ON *.* TO `root`@`localhost` WITH GRANT OPTION"]);
        assert!(has(&all, &["REPLICATION SLAVE"]));
        assert!(!has(&granted(&["GRANT USAGE ON *.* TO `u`@`%`"]), &["REPLICATION SLAVE"]));
    }

    #[test]
    fn accounts_are_quoted_as_a_grant_wants_them() {
        assert_eq!(quoted_account("spill@way@10.%"), "'spill@way'@'10.%'");
        assert_eq!(quoted_account("o'neil@%"), "'o''neil'@'%'");
    }
}
