//! What changes the log's files: PURGE, FLUSH, RESET.

use super::super::parser::{ParseError, Parsed, Parser};
use super::super::statement::{Expression, Moment, PurgeUpTo, Statement};
use super::super::token::Kind;

impl Parser<'_> {
    /// `{BINARY | MASTER} LOGS {TO 'file' | BEFORE moment}`.
    pub(super) fn purge(&mut self) -> Parsed<Statement> {
        if !self.keyword("BINARY") && !self.keyword("MASTER") {
            return Err(ParseError::Unsupported);
        }
        self.expect_keyword("LOGS")?;
        let up_to = if self.keyword("TO") {
            PurgeUpTo::File(self.text()?)
        } else {
            self.expect_keyword("BEFORE")?;
            PurgeUpTo::Moment(self.moment()?)
        };
        Ok(Statement::Purge(up_to))
    }

    /// `[LOCAL | NO_WRITE_TO_BINLOG] [BINARY] LOGS`.
    pub(super) fn flush(&mut self) -> Parsed<Statement> {
        let _ = self.keyword("LOCAL") || self.keyword("NO_WRITE_TO_BINLOG");
        let binary = self.keyword("BINARY");
        if self.keyword("LOGS") {
            return Ok(Statement::FlushLogs);
        }
        Err(if binary { self.fault() } else { ParseError::Unsupported })
    }

    /// `MASTER [TO n]`, or `BINARY LOGS AND GTIDS` as MySQL has it.
    pub(super) fn reset(&mut self) -> Parsed<Statement> {
        if !self.keyword("MASTER") && !self.keyword("BINARY") {
            return Err(ParseError::Unsupported);
        }
        self.skip_words();
        if let Some(Kind::Number(_)) = self.peek() {
            self.advance();
        }
        Ok(Statement::ResetLog)
    }

    /// An expression, with `- INTERVAL n unit` behind it or DATE_SUB around it.
    fn moment(&mut self) -> Parsed<Moment> {
        if self.keyword("DATE_SUB") {
            self.expect('(')?;
            let from = self.expression()?;
            self.expect(',')?;
            let before = self.interval()?;
            self.expect(')')?;
            return Ok(Moment { from, before });
        }
        let from = self.expression()?;
        let before = if self.symbol('-') { self.interval()? } else { 0 };
        Ok(Moment { from, before })
    }

    /// In seconds.
    fn interval(&mut self) -> Parsed<u64> {
        self.expect_keyword("INTERVAL")?;
        let count = match self.expression()? {
            Expression::Integer(count) => u64::try_from(count).ok(),
            Expression::Text(text) => text.trim().parse().ok(),
            _ => None,
        };
        let count: u64 = count.ok_or_else(|| self.fault_before())?;
        let seconds = match self.peek() {
            Some(Kind::Word(unit)) => unit_seconds(unit),
            _ => None,
        };
        let seconds = seconds.ok_or_else(|| self.fault())?;
        self.advance();
        Ok(count.saturating_mul(seconds))
    }
}

fn unit_seconds(unit: &str) -> Option<u64> {
    match unit.to_ascii_uppercase().as_str() {
        "SECOND" => Some(1),
        "MINUTE" => Some(60),
        "HOUR" => Some(3600),
        "DAY" => Some(24 * 3600),
        "WEEK" => Some(7 * 24 * 3600),
        _ => None,
    }
}
