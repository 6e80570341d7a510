//! Words to statements: a small recursive descent over what replicas, tools and people send to a binlog server.

use super::parser::{ParseError, Parsed, Parser};
use super::statement::{
    Assignment, EventRange, Expression, Filter, Pattern, SelectItem, Show, Statement, SystemName,
};
use super::token::{Kind, tokenize};

mod purge;

/// Reads one statement; a semicolon may end it.
///
/// # Errors
/// See [`ParseError`].
pub(super) fn parse(text: &str) -> Parsed<Statement> {
    let tokens = tokenize(text).map_err(|error| ParseError::Syntax(error.offset()))?;
    if tokens.is_empty() {
        return Err(ParseError::Empty);
    }
    let mut parser = Parser::new(text, tokens);
    let statement = parser.statement()?;
    while parser.symbol(';') {}
    if parser.is_at_end() { Ok(statement) } else { Err(parser.fault()) }
}

impl Parser<'_> {
    fn statement(&mut self) -> Parsed<Statement> {
        let Some(verb) = self.word() else { return Err(self.fault()) };
        match verb.to_ascii_uppercase().as_str() {
            "SELECT" => self.select(),
            "SET" => self.set().map(Statement::Set),
            "SHOW" => self.show().map(Statement::Show),
            "KILL" => self.kill(),
            "PURGE" => self.purge(),
            "FLUSH" => self.flush(),
            "RESET" => self.reset(),
            "ALTER" => self.alter(),
            "USE" => self.name().map(Statement::Use),
            "BEGIN" | "COMMIT" | "ROLLBACK" | "START" => {
                self.skip_words();
                Ok(Statement::Transaction)
            }
            _ => Err(ParseError::Unsupported),
        }
    }

    /// `ALTER SOURCE name {START = 'position' | CONTINUE}`.
    fn alter(&mut self) -> Parsed<Statement> {
        if !self.keyword("SOURCE") {
            return Err(ParseError::Unsupported);
        }
        let name = self.name()?;
        if self.keyword("CONTINUE") {
            return Ok(Statement::ContinueSource { name });
        }
        self.expect_keyword("START")?;
        self.expect('=')?;
        Ok(Statement::AlterSource { name, start: self.text()? })
    }

    fn select(&mut self) -> Parsed<Statement> {
        let mut items = vec![self.select_item()?];
        while self.symbol(',') {
            items.push(self.select_item()?);
        }
        if self.keyword("FROM") && !self.keyword("DUAL") {
            return Err(ParseError::Unsupported);
        }
        let (skip, rows) = self.limit()?;
        Ok(Statement::Select { items, one_row: skip == 0 && rows != Some(0) })
    }

    fn select_item(&mut self) -> Parsed<SelectItem> {
        let first = self.place();
        let expression = self.expression()?;
        let written = self.written(first);
        let name = match (&expression, self.alias()?) {
            (_, Some(alias)) => alias,
            (Expression::Text(text), None) => text.clone(),
            _ => written,
        };
        Ok(SelectItem { expression, name })
    }

    fn alias(&mut self) -> Parsed<Option<String>> {
        if self.keyword("AS") {
            return self.name().map(Some);
        }
        match self.peek() {
            Some(Kind::Quoted(_) | Kind::Text(_)) => self.name().map(Some),
            Some(Kind::Word(word)) if !is_reserved(word) => self.name().map(Some),
            _ => Ok(None),
        }
    }

    fn expression(&mut self) -> Parsed<Expression> {
        let Some(token) = self.next() else { return Err(self.fault()) };
        match token {
            Kind::Number(digits) => self.integer(&digits, false),
            Kind::Symbol('-') => match self.next() {
                Some(Kind::Number(digits)) => self.integer(&digits, true),
                _ => Err(self.fault_before()),
            },
            Kind::Text(text) => Ok(Expression::Text(text)),
            Kind::UserVariable(name) => Ok(Expression::UserVariable(name.to_ascii_lowercase())),
            Kind::SystemSign => self.system_name().map(Expression::SystemVariable),
            Kind::Word(word) if self.symbol('(') => self.call(&word),
            Kind::Word(word) => self.bare_word(word),
            // SELECT * …, a column of a table: not here.
            Kind::Symbol('*') | Kind::Quoted(_) => Err(ParseError::Unsupported),
            Kind::Symbol(_) => Err(self.fault_before()),
        }
    }

    /// A decimal or a number beyond 64 bits stays text: no client of this port computes with it.
    fn integer(&self, digits: &str, negative: bool) -> Parsed<Expression> {
        let signed = if negative { format!("-{digits}") } else { digits.to_owned() };
        Ok(signed.parse().map_or(Expression::Text(signed), Expression::Integer))
    }

    fn bare_word(&mut self, word: String) -> Parsed<Expression> {
        match word.to_ascii_uppercase().as_str() {
            "NULL" => Ok(Expression::Null),
            "TRUE" => Ok(Expression::Integer(1)),
            "FALSE" => Ok(Expression::Integer(0)),
            "CURRENT_USER" | "CURRENT_TIMESTAMP" => {
                Ok(Expression::Call { function: word.to_ascii_lowercase(), arguments: Vec::new() })
            }
            _ if is_reserved(&word) => Err(self.fault_before()),
            _ => Ok(Expression::Word(word)),
        }
    }

    /// The opening bracket is behind us.
    fn call(&mut self, function: &str) -> Parsed<Expression> {
        let mut arguments = Vec::new();
        if !self.symbol(')') {
            arguments.push(self.nested(Self::expression)?);
            while self.symbol(',') {
                arguments.push(self.nested(Self::expression)?);
            }
            self.expect(')')?;
        }
        Ok(Expression::Call { function: function.to_ascii_lowercase(), arguments })
    }

    /// `[GLOBAL.]name` after `@@`.
    fn system_name(&mut self) -> Parsed<SystemName> {
        let first = self.name()?;
        let scope = scope_is_global(&first);
        match (scope, self.symbol('.')) {
            (Some(global), true) => {
                Ok(SystemName { global, name: self.name()?.to_ascii_lowercase() })
            }
            (None, true) => {
                // A structured variable: `@@hot_cache.key_buffer_size`.
                let second = self.name()?;
                Ok(SystemName {
                    global: false,
                    name: format!("{first}.{second}").to_ascii_lowercase(),
                })
            }
            (_, false) => Ok(SystemName { global: false, name: first.to_ascii_lowercase() }),
        }
    }

    fn set(&mut self) -> Parsed<Vec<Assignment>> {
        let mut assignments = vec![self.assignment()?];
        while self.symbol(',') {
            assignments.push(self.assignment()?);
        }
        Ok(assignments)
    }

    fn assignment(&mut self) -> Parsed<Assignment> {
        if self.keyword("NAMES") || self.keyword("CHARSET") {
            return self.names();
        }
        if self.keyword("CHARACTER") {
            self.expect_keyword("SET")?;
            return self.names();
        }
        if let Some(Kind::UserVariable(name)) = self.peek().cloned() {
            self.advance();
            let value = self.assigned()?;
            return Ok(Assignment::User { name: name.to_ascii_lowercase(), value });
        }
        self.system_assignment()
    }

    fn names(&mut self) -> Parsed<Assignment> {
        let charset = self.name()?;
        if self.keyword("COLLATE") {
            self.name()?;
        }
        Ok(Assignment::Names(charset))
    }

    fn system_assignment(&mut self) -> Parsed<Assignment> {
        let variable = if matches!(self.peek(), Some(Kind::SystemSign)) {
            self.advance();
            self.system_name()?
        } else {
            let global = self.set_scope();
            if self.keyword("TRANSACTION") {
                self.skip_words();
                return Ok(Assignment::Transaction);
            }
            SystemName { global, name: self.name()?.to_ascii_lowercase() }
        };
        let value = self.assigned()?;
        Ok(Assignment::System { variable, value })
    }

    fn set_scope(&mut self) -> bool {
        let scope = match self.peek() {
            Some(Kind::Word(word)) => scope_is_global(word),
            _ => None,
        };
        if scope.is_some() {
            self.advance();
        }
        scope.unwrap_or(false)
    }

    /// `= value` or `:= value`.
    fn assigned(&mut self) -> Parsed<Expression> {
        self.symbol(':');
        self.expect('=')?;
        if self.keyword("ON") {
            return Ok(Expression::Word("ON".to_owned()));
        }
        self.expression()
    }

    fn show(&mut self) -> Parsed<Show> {
        let scoped = self.keyword("GLOBAL") || self.keyword("SESSION") || self.keyword("LOCAL");
        if self.keyword("VARIABLES") {
            return self.filter("VARIABLE_NAME").map(Show::Variables);
        }
        if self.keyword("STATUS") {
            return self.filter("VARIABLE_NAME").map(Show::Status);
        }
        if scoped {
            return Err(self.fault());
        }
        let full = self.keyword("FULL");
        let Some(subject) = self.word() else { return self.show_count() };
        match subject.to_ascii_uppercase().as_str() {
            "PROCESSLIST" => Ok(Show::ProcessList),
            "TABLES" => self.show_tables(),
            _ if full => Err(ParseError::Unsupported),
            "MASTER" => self.either("STATUS", Show::MasterStatus, "LOGS", Show::BinaryLogs),
            "BINARY" => self.after("LOGS", Show::BinaryLogs),
            "SLAVE" | "REPLICA" => self.after("HOSTS", Show::ReplicaHosts),
            "BINLOG" if self.keyword("EVENTS") => self.event_range().map(Show::BinlogEvents),
            "BINLOG" => self.after("STATUS", Show::MasterStatus),
            "WARNINGS" | "ERRORS" => {
                self.limit()?;
                Ok(Show::Warnings)
            }
            "COUNT" => self.show_count(),
            "GRANTS" => self.show_grants(),
            "DATABASES" | "SCHEMAS" => self.filter("DATABASE").map(Show::Databases),
            _ => Err(ParseError::Unsupported),
        }
    }

    /// `COUNT(*) WARNINGS`; COUNT is behind us.
    fn show_count(&mut self) -> Parsed<Show> {
        self.expect('(')?;
        self.expect('*')?;
        self.expect(')')?;
        if self.keyword("WARNINGS") {
            return Ok(Show::WarningCount("@@session.warning_count"));
        }
        self.after("ERRORS", Show::WarningCount("@@session.error_count"))
    }

    /// FOR CURRENT_USER, with or without brackets: the only user whose grants are shown.
    fn show_grants(&mut self) -> Parsed<Show> {
        if self.keyword("FOR") {
            if !self.keyword("CURRENT_USER") {
                return Err(ParseError::Unsupported);
            }
            if self.symbol('(') {
                self.expect(')')?;
            }
        }
        Ok(Show::Grants)
    }

    fn show_tables(&mut self) -> Parsed<Show> {
        if self.keyword("FROM") || self.keyword("IN") {
            self.name()?;
        }
        self.filter("TABLE_NAME").map(|_| Show::Tables)
    }

    fn event_range(&mut self) -> Parsed<EventRange> {
        let mut range = EventRange::default();
        if self.keyword("IN") {
            range.file = Some(self.text()?);
        }
        if self.keyword("FROM") {
            range.from = Some(self.unsigned()?);
        }
        (range.skip, range.rows) = self.limit()?;
        Ok(range)
    }

    /// `LIMIT [skip,] rows` or `LIMIT rows OFFSET skip`.
    fn limit(&mut self) -> Parsed<(u64, Option<u64>)> {
        if !self.keyword("LIMIT") {
            return Ok((0, None));
        }
        let first = self.unsigned()?;
        if self.symbol(',') {
            return Ok((first, Some(self.unsigned()?)));
        }
        let skip = if self.keyword("OFFSET") { self.unsigned()? } else { 0 };
        Ok((skip, Some(first)))
    }

    fn filter(&mut self, column: &str) -> Parsed<Filter> {
        if self.keyword("LIKE") {
            return Ok(Filter::AnyOf(vec![Pattern::Like(self.text()?)]));
        }
        if !self.keyword("WHERE") {
            return Ok(Filter::All);
        }
        let mut patterns = self.comparison(column)?;
        while self.keyword("OR") {
            patterns.append(&mut self.comparison(column)?);
        }
        Ok(Filter::AnyOf(patterns))
    }

    fn comparison(&mut self, column: &str) -> Parsed<Vec<Pattern>> {
        if self.symbol('(') {
            let inner = self.nested(|parser| parser.comparison(column))?;
            self.expect(')')?;
            return Ok(inner);
        }
        let name = self.name()?;
        if !name.eq_ignore_ascii_case(column) {
            return Err(ParseError::Unsupported);
        }
        if self.symbol('=') {
            return Ok(vec![Pattern::Exact(self.text()?)]);
        }
        if self.keyword("LIKE") {
            return Ok(vec![Pattern::Like(self.text()?)]);
        }
        if !self.keyword("IN") {
            return Err(ParseError::Unsupported);
        }
        self.expect('(')?;
        let mut patterns = vec![Pattern::Exact(self.text()?)];
        while self.symbol(',') {
            patterns.push(Pattern::Exact(self.text()?));
        }
        self.expect(')')?;
        Ok(patterns)
    }

    fn kill(&mut self) -> Parsed<Statement> {
        let _ = self.keyword("HARD") || self.keyword("SOFT");
        let query_only = self.keyword("QUERY");
        if !query_only {
            self.keyword("CONNECTION");
        }
        if query_only && self.keyword("ID") {
            return Err(ParseError::Unsupported);
        }
        Ok(Statement::Kill { id: self.unsigned()?, query_only })
    }
}

fn scope_is_global(word: &str) -> Option<bool> {
    match word.to_ascii_uppercase().as_str() {
        "GLOBAL" => Some(true),
        "SESSION" | "LOCAL" => Some(false),
        _ => None,
    }
}

/// Words that end an expression, and so are no alias.
fn is_reserved(word: &str) -> bool {
    let reserved = ["FROM", "LIMIT", "WHERE", "AS", "OFFSET", "INTO", "ORDER", "GROUP", "UNION"];
    reserved.iter().any(|keyword| keyword.eq_ignore_ascii_case(word))
}

#[cfg(test)]
mod tests;
