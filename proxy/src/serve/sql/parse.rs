//! Words to statements: a small recursive descent over what replicas, tools and people send to a binlog server.

use super::statement::{
    Assignment, EventRange, Expression, Filter, Pattern, SelectItem, Show, Statement, SystemName,
};
use super::token::{Kind, Token, tokenize};

mod purge;

/// Why a text is no statement of ours.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ParseError {
    /// Nothing but blanks and comments.
    Empty,
    /// Broken, from this byte on.
    Syntax(usize),
    /// Sound as far as can be told, but nothing this port answers.
    Unsupported,
}

/// How deep brackets may nest: no client of this port nests more than two.
const MAX_DEPTH: usize = 16;

type Parsed<T> = Result<T, ParseError>;

/// Reads one statement; a semicolon may end it.
///
/// # Errors
/// See [`ParseError`].
pub(super) fn parse(text: &str) -> Parsed<Statement> {
    let tokens = tokenize(text).map_err(|error| ParseError::Syntax(error.offset()))?;
    if tokens.is_empty() {
        return Err(ParseError::Empty);
    }
    let mut parser = Parser { text, tokens, at: 0, depth: 0 };
    let statement = parser.statement()?;
    while parser.symbol(';') {}
    if parser.at < parser.tokens.len() { Err(parser.fault()) } else { Ok(statement) }
}

struct Parser<'a> {
    text: &'a str,
    tokens: Vec<Token>,
    at: usize,
    depth: usize,
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
            "USE" => self.name().map(Statement::Use),
            "BEGIN" | "COMMIT" | "ROLLBACK" | "START" => {
                self.skip_words();
                Ok(Statement::Transaction)
            }
            _ => Err(ParseError::Unsupported),
        }
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
        let first = self.at;
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
            self.at += 1;
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
            self.at += 1;
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
            self.at += 1;
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

    // What the rules above are made of.

    fn nested<T>(&mut self, read: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        if self.depth == MAX_DEPTH {
            return Err(self.fault());
        }
        self.depth += 1;
        let result = read(self);
        self.depth -= 1;
        result
    }

    fn peek(&self) -> Option<&Kind> {
        self.tokens.get(self.at).map(|token| &token.kind)
    }

    fn next(&mut self) -> Option<Kind> {
        let kind = self.peek().cloned();
        self.at += usize::from(kind.is_some());
        kind
    }

    /// Takes this keyword if it stands here.
    fn keyword(&mut self, wanted: &str) -> bool {
        let here =
            matches!(self.peek(), Some(Kind::Word(word)) if word.eq_ignore_ascii_case(wanted));
        self.at += usize::from(here);
        here
    }

    fn symbol(&mut self, wanted: char) -> bool {
        let here = self.peek() == Some(&Kind::Symbol(wanted));
        self.at += usize::from(here);
        here
    }

    fn expect(&mut self, wanted: char) -> Parsed<()> {
        if self.symbol(wanted) { Ok(()) } else { Err(self.fault()) }
    }

    fn expect_keyword(&mut self, wanted: &str) -> Parsed<()> {
        if self.keyword(wanted) { Ok(()) } else { Err(self.fault()) }
    }

    fn after(&mut self, wanted: &str, show: Show) -> Parsed<Show> {
        if self.keyword(wanted) { Ok(show) } else { Err(ParseError::Unsupported) }
    }

    fn either(&mut self, one: &str, first: Show, other: &str, second: Show) -> Parsed<Show> {
        if self.keyword(one) { Ok(first) } else { self.after(other, second) }
    }

    fn word(&mut self) -> Option<String> {
        match self.peek() {
            Some(Kind::Word(word)) => {
                let word = word.clone();
                self.at += 1;
                Some(word)
            }
            _ => None,
        }
    }

    /// A name, bare or quoted either way.
    fn name(&mut self) -> Parsed<String> {
        match self.peek() {
            Some(Kind::Word(name) | Kind::Quoted(name) | Kind::Text(name)) => {
                let name = name.clone();
                self.at += 1;
                Ok(name)
            }
            _ => Err(self.fault()),
        }
    }

    fn text(&mut self) -> Parsed<String> {
        match self.peek() {
            Some(Kind::Text(text)) => {
                let text = text.clone();
                self.at += 1;
                Ok(text)
            }
            _ => Err(self.fault()),
        }
    }

    fn unsigned(&mut self) -> Parsed<u64> {
        let value = match self.peek() {
            Some(Kind::Number(digits)) => digits.parse().ok(),
            _ => None,
        };
        let value = value.ok_or_else(|| self.fault())?;
        self.at += 1;
        Ok(value)
    }

    /// Options of a transaction statement: words, commas, nothing else.
    fn skip_words(&mut self) {
        while matches!(self.peek(), Some(Kind::Word(_) | Kind::Symbol(','))) {
            self.at += 1;
        }
    }

    /// The client's own bytes from this word to the last one taken.
    fn written(&self, first: usize) -> String {
        let start = self.tokens.get(first).map_or(0, |token| token.span.start);
        let end = self.tokens.get(self.at.saturating_sub(1)).map_or(start, |token| token.span.end);
        self.text.get(start..end).unwrap_or_default().to_owned()
    }

    fn fault(&self) -> ParseError {
        let here = self.tokens.get(self.at);
        ParseError::Syntax(here.map_or(self.text.len(), |token| token.span.start))
    }

    fn fault_before(&self) -> ParseError {
        let here = self.tokens.get(self.at.saturating_sub(1));
        ParseError::Syntax(here.map_or(self.text.len(), |token| token.span.start))
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
