//! A place in a statement's words, and the steps the rules in `parse` are made of.

use super::statement::Show;
use super::token::{Kind, Token};

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

pub(super) type Parsed<T> = Result<T, ParseError>;

/// See the module's description.
pub(super) struct Parser<'a> {
    text: &'a str,
    tokens: Vec<Token>,
    at: usize,
    depth: usize,
}

impl<'a> Parser<'a> {
    /// At the first word.
    pub fn new(text: &'a str, tokens: Vec<Token>) -> Self {
        Self { text, tokens, at: 0, depth: 0 }
    }

    pub fn is_at_end(&self) -> bool {
        self.at >= self.tokens.len()
    }

    /// Number of the next word.
    pub fn place(&self) -> usize {
        self.at
    }

    /// Past a word that was looked at.
    pub fn advance(&mut self) {
        self.at += 1;
    }

    pub fn nested<T>(&mut self, read: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        if self.depth == MAX_DEPTH {
            return Err(self.fault());
        }
        self.depth += 1;
        let result = read(self);
        self.depth -= 1;
        result
    }

    pub fn peek(&self) -> Option<&Kind> {
        self.tokens.get(self.at).map(|token| &token.kind)
    }

    pub fn next(&mut self) -> Option<Kind> {
        let kind = self.peek().cloned();
        self.at += usize::from(kind.is_some());
        kind
    }

    /// Takes this keyword if it stands here.
    pub fn keyword(&mut self, wanted: &str) -> bool {
        let here =
            matches!(self.peek(), Some(Kind::Word(word)) if word.eq_ignore_ascii_case(wanted));
        self.at += usize::from(here);
        here
    }

    pub fn symbol(&mut self, wanted: char) -> bool {
        let here = self.peek() == Some(&Kind::Symbol(wanted));
        self.at += usize::from(here);
        here
    }

    pub fn expect(&mut self, wanted: char) -> Parsed<()> {
        if self.symbol(wanted) { Ok(()) } else { Err(self.fault()) }
    }

    pub fn expect_keyword(&mut self, wanted: &str) -> Parsed<()> {
        if self.keyword(wanted) { Ok(()) } else { Err(self.fault()) }
    }

    pub fn after(&mut self, wanted: &str, show: Show) -> Parsed<Show> {
        if self.keyword(wanted) { Ok(show) } else { Err(ParseError::Unsupported) }
    }

    pub fn either(&mut self, one: &str, first: Show, other: &str, second: Show) -> Parsed<Show> {
        if self.keyword(one) { Ok(first) } else { self.after(other, second) }
    }

    pub fn word(&mut self) -> Option<String> {
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
    pub fn name(&mut self) -> Parsed<String> {
        match self.peek() {
            Some(Kind::Word(name) | Kind::Quoted(name) | Kind::Text(name)) => {
                let name = name.clone();
                self.at += 1;
                Ok(name)
            }
            _ => Err(self.fault()),
        }
    }

    pub fn text(&mut self) -> Parsed<String> {
        match self.peek() {
            Some(Kind::Text(text)) => {
                let text = text.clone();
                self.at += 1;
                Ok(text)
            }
            _ => Err(self.fault()),
        }
    }

    pub fn unsigned(&mut self) -> Parsed<u64> {
        let value = match self.peek() {
            Some(Kind::Number(digits)) => digits.parse().ok(),
            _ => None,
        };
        let value = value.ok_or_else(|| self.fault())?;
        self.at += 1;
        Ok(value)
    }

    /// Options of a transaction statement: words, commas, nothing else.
    pub fn skip_words(&mut self) {
        while matches!(self.peek(), Some(Kind::Word(_) | Kind::Symbol(','))) {
            self.at += 1;
        }
    }

    /// The client's own bytes from this word to the last one taken.
    pub fn written(&self, first: usize) -> String {
        let start = self.tokens.get(first).map_or(0, |token| token.span.start);
        let end = self.tokens.get(self.at.saturating_sub(1)).map_or(start, |token| token.span.end);
        self.text.get(start..end).unwrap_or_default().to_owned()
    }

    pub fn fault(&self) -> ParseError {
        let here = self.tokens.get(self.at);
        ParseError::Syntax(here.map_or(self.text.len(), |token| token.span.start))
    }

    pub fn fault_before(&self) -> ParseError {
        let here = self.tokens.get(self.at.saturating_sub(1));
        ParseError::Syntax(here.map_or(self.text.len(), |token| token.span.start))
    }
}
