//! The words of a statement: names, strings, numbers, variables, punctuation. Comments are dropped; what stands in an
//! executable comment (`/*! … */`, `/*M! … */`) counts as if it stood outside.

use std::ops::Range;

/// One word with the bytes of the statement it came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Token {
    pub kind: Kind,
    /// Where it stands, for column names that repeat the client's own spelling.
    pub span: Range<usize>,
}

/// What a word is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A bare word as written: a keyword or a name.
    Word(String),
    /// A name in back quotes, without them.
    Quoted(String),
    /// A string literal, unescaped.
    Text(String),
    /// An integer or decimal literal as written.
    Number(String),
    /// `@name`, without the sign; also ``@`name` `` and `@'name'`.
    UserVariable(String),
    /// `@@`, followed by words and dots.
    SystemSign,
    /// One character that means something: `( ) , ; = . * + - < > !` and so on.
    Symbol(char),
}

/// The text is no sequence of words.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub(super) enum TokenError {
    #[error("a quoted string or name has no end")]
    Unterminated(usize),
    #[error("this character cannot stand here")]
    Unexpected(usize),
}

impl TokenError {
    /// Where in the statement reading stopped.
    pub fn offset(&self) -> usize {
        match self {
            Self::Unterminated(at) | Self::Unexpected(at) => *at,
        }
    }
}

/// Splits a statement into words.
///
/// # Errors
/// A quote without its end, or a character that starts no word (`select $$`).
pub(super) fn tokenize(text: &str) -> Result<Vec<Token>, TokenError> {
    let mut scanner = Scanner { text, at: 0, inside_executable: false };
    let mut tokens = Vec::new();
    while scanner.skip_blanks() {
        let start = scanner.at;
        let kind = scanner.next_kind()?;
        tokens.push(Token { kind, span: start..scanner.at });
    }
    Ok(tokens)
}

struct Scanner<'a> {
    text: &'a str,
    at: usize,
    inside_executable: bool,
}

impl Scanner<'_> {
    fn rest(&self) -> &str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn bump(&mut self) -> Option<char> {
        let next = self.peek()?;
        self.at += next.len_utf8();
        Some(next)
    }

    fn take_while(&mut self, keep: impl Fn(char) -> bool) -> String {
        let rest = self.rest();
        let taken = &rest[..rest.find(|c| !keep(c)).unwrap_or(rest.len())];
        let taken = taken.to_owned();
        self.at += taken.len();
        taken
    }

    /// Moves to the next word; false at the end of the statement.
    fn skip_blanks(&mut self) -> bool {
        loop {
            let before = self.at;
            self.take_while(|c| c.is_whitespace() || c == '\0');
            self.skip_comment();
            if self.at == before {
                return self.at < self.text.len();
            }
        }
    }

    fn skip_comment(&mut self) {
        let rest = self.rest();
        if rest.starts_with("/*!") || rest.starts_with("/*M!") {
            self.at += rest.find('!').unwrap_or_default() + 1;
            self.take_while(|c| c.is_ascii_digit());
            self.inside_executable = true;
        } else if rest.starts_with("/*") {
            self.at += rest.find("*/").map_or(rest.len(), |end| end + 2);
        } else if self.inside_executable && rest.starts_with("*/") {
            self.at += 2;
            self.inside_executable = false;
        } else if rest.starts_with('#') || is_dash_comment(rest) {
            self.at += rest.find('\n').map_or(rest.len(), |end| end + 1);
        }
    }

    fn next_kind(&mut self) -> Result<Kind, TokenError> {
        let start = self.at;
        let Some(first) = self.bump() else { return Err(TokenError::Unexpected(start)) };
        match first {
            '\'' | '"' => self.quoted(first, start).map(Kind::Text),
            '`' => self.quoted('`', start).map(Kind::Quoted),
            '@' => self.variable(),
            '0'..='9' => Ok(self.number(first)),
            _ if is_word_start(first) => {
                let rest = self.take_while(is_word);
                Ok(Kind::Word(format!("{first}{rest}")))
            }
            '(' | ')' | ',' | ';' | '=' | '.' | '*' | '+' | '-' | '<' | '>' | '!' | ':' | '/'
            | '%' | '?' | '|' | '&' => Ok(Kind::Symbol(first)),
            _ => Err(TokenError::Unexpected(start)),
        }
    }

    fn variable(&mut self) -> Result<Kind, TokenError> {
        let start = self.at;
        match self.peek() {
            Some('@') => {
                self.bump();
                Ok(Kind::SystemSign)
            }
            Some(quote @ ('`' | '\'' | '"')) => {
                self.bump();
                self.quoted(quote, start).map(Kind::UserVariable)
            }
            _ => {
                let name = self.take_while(|c| is_word(c) || c == '.');
                if name.is_empty() {
                    return Err(TokenError::Unexpected(start));
                }
                Ok(Kind::UserVariable(name))
            }
        }
    }

    fn number(&mut self, first: char) -> Kind {
        let mut text = first.to_string();
        text += &self.take_while(|c| c.is_ascii_digit());
        if self.peek() == Some('.') {
            self.bump();
            text.push('.');
            text += &self.take_while(|c| c.is_ascii_digit());
        }
        Kind::Number(text)
    }

    /// The opening quote is behind us. A doubled quote stands for itself; a backslash escapes, but not in names.
    fn quoted(&mut self, quote: char, start: usize) -> Result<String, TokenError> {
        let mut value = String::new();
        while let Some(next) = self.bump() {
            if next == quote {
                if self.peek() != Some(quote) {
                    return Ok(value);
                }
                self.bump();
                value.push(quote);
            } else if next == '\\' && quote != '`' {
                self.escape(&mut value);
            } else {
                value.push(next);
            }
        }
        Err(TokenError::Unterminated(start))
    }

    fn escape(&mut self, value: &mut String) {
        match self.bump() {
            Some('n') => value.push('\n'),
            Some('t') => value.push('\t'),
            Some('r') => value.push('\r'),
            Some('0') => value.push('\0'),
            // `LIKE 'a\_b'`: the pattern keeps its backslash.
            Some(wild @ ('%' | '_')) => value.extend(['\\', wild]),
            Some(other) => value.push(other),
            None => {}
        }
    }
}

fn is_dash_comment(rest: &str) -> bool {
    rest.strip_prefix("--")
        .is_some_and(|after| after.is_empty() || after.starts_with(char::is_whitespace))
}

fn is_word_start(c: char) -> bool {
    c.is_alphabetic() || c == '_'
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_' || c == '$'
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(text: &str) -> Vec<Kind> {
        tokenize(text).unwrap().into_iter().map(|token| token.kind).collect()
    }

    fn word(text: &str) -> Kind {
        Kind::Word(text.to_owned())
    }

    #[test]
    fn splits_what_a_replica_sends() {
        assert_eq!(
            kinds("SET @master_binlog_checksum= @@global.binlog_checksum"),
            [
                word("SET"),
                Kind::UserVariable("master_binlog_checksum".to_owned()),
                Kind::Symbol('='),
                Kind::SystemSign,
                word("global"),
                Kind::Symbol('.'),
                word("binlog_checksum"),
            ]
        );
    }

    #[test]
    fn comments_vanish_and_executable_ones_count() {
        assert_eq!(
            kinds("/* ping */ SELECT -- one\n 1 # two"),
            [word("SELECT"), Kind::Number("1".to_owned())]
        );
        assert_eq!(kinds("/*!40101 SET */ /*M!100100 x */ y"), [word("SET"), word("x"), word("y")]);
        assert_eq!(kinds("a/* never closed"), [word("a")]);
    }

    #[test]
    fn quotes_double_and_escape() {
        assert_eq!(
            kinds(r#"'it''s' "a\"b" `x``y` 'n\_m'"#),
            [
                Kind::Text("it's".to_owned()),
                Kind::Text("a\"b".to_owned()),
                Kind::Quoted("x`y".to_owned()),
                Kind::Text("n\\_m".to_owned()),
            ]
        );
    }

    #[test]
    fn what_starts_no_word_is_an_error() {
        assert_eq!(tokenize("select $$"), Err(TokenError::Unexpected(7)));
        assert_eq!(tokenize("select 'abc"), Err(TokenError::Unterminated(7)));
        assert_eq!(tokenize("select @ "), Err(TokenError::Unexpected(8)));
    }
}
