//! One table of the file while it is read: gives out values by key and words what is wrong with them.

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::fault::Fault;
use super::foreign;
use super::key::{Described, Key, Unavailable};

/// What a section may contain.
pub(super) type Keys = &'static [&'static dyn Described];

/// A table of the file. Values are taken out of it; [`Section::finish`] refuses what is left.
pub(super) struct Section<'a> {
    /// `binlog`, `replicas.user`; empty for the top of the file.
    path: &'static str,
    text: &'a str,
    keys: Keys,
    table: DeTable<'a>,
    start: Option<usize>,
}

impl<'a> Section<'a> {
    /// The top of the file.
    pub(super) fn root(text: &'a str, keys: Keys, table: DeTable<'a>) -> Self {
        Self { path: "", text, keys, table, start: None }
    }

    /// Its name in the file.
    pub(super) fn path(&self) -> &'static str {
        self.path
    }

    /// The key's value or its default.
    pub(super) fn get<T>(&mut self, key: &Key<T>) -> Result<T, Fault> {
        if let Some(value) = self.optional(key)? {
            return Ok(value);
        }
        let default = key.default.and_then(|text| DeValue::parse(text).ok());
        default.and_then(|value| (key.parse)(value.get_ref())).ok_or_else(|| {
            let name = self.name_of(key.name);
            Fault::at(self.start, format!("`{name}` is missing: set it to {}", key.allowed))
        })
    }

    /// The key's value, if the file has one.
    pub(super) fn optional<T>(&mut self, key: &Key<T>) -> Result<Option<T>, Fault> {
        let Some(value) = self.table.remove(key.name) else {
            return Ok(None);
        };
        let parsed = (key.parse)(value.get_ref());
        parsed.map(Some).ok_or_else(|| self.refuse(key, &value))
    }

    /// A `[path]` table; an empty one if the file has none.
    pub(super) fn table(&mut self, path: &'static str, keys: Keys) -> Result<Section<'a>, Fault> {
        match self.table.remove(last_name(path)) {
            None => Ok(Section { path, text: self.text, keys, table: DeTable::new(), start: None }),
            Some(value) => self.open(value, path, keys, &format!("write [{path}]")),
        }
    }

    /// All `[[path]]` tables.
    pub(super) fn tables(
        &mut self,
        path: &'static str,
        keys: Keys,
    ) -> Result<Vec<Section<'a>>, Fault> {
        let wanted = format!("write [[{path}]]");
        let Some(value) = self.table.remove(last_name(path)) else {
            return Ok(Vec::new());
        };
        let start = value.span().start;
        match value.into_inner() {
            DeValue::Array(items) => {
                items.into_iter().map(|item| self.open(item, path, keys, &wanted)).collect()
            }
            _ => Err(Fault::at(Some(start), format!("`{path}` is a list of tables: {wanted}"))),
        }
    }

    fn open(
        &self,
        value: Spanned<DeValue<'a>>,
        path: &'static str,
        keys: Keys,
        wanted: &str,
    ) -> Result<Section<'a>, Fault> {
        let start = Some(value.span().start);
        match value.into_inner() {
            DeValue::Table(table) => Ok(Section { path, text: self.text, keys, table, start }),
            _ => Err(Fault::at(start, format!("`{path}` is a table: {wanted}"))),
        }
    }

    /// Refuses whatever nobody took: keys without a function yet, servers' names, misspellings.
    pub(super) fn finish(mut self) -> Result<(), Fault> {
        self.refuse_rest()
    }

    /// As [`Section::finish`], with the section still at hand.
    pub(super) fn refuse_rest(&mut self) -> Result<(), Fault> {
        for key in self.keys.iter().filter_map(|key| key.unavailable()) {
            self.take_unavailable(key)?;
        }
        let first = self.table.keys().min_by_key(|name| name.span().start);
        first.map_or(Ok(()), |name| Err(self.unknown(name.get_ref(), name.span().start)))
    }

    fn take_unavailable(&mut self, key: &Unavailable) -> Result<(), Fault> {
        let Some(value) = self.table.remove(key.name) else {
            return Ok(());
        };
        let today = key.today.and_then(|text| DeValue::parse(text).ok());
        if today.is_some_and(|today| same(value.get_ref(), today.get_ref())) {
            return Ok(());
        }
        let way_out = match key.today {
            Some(today) => format!("only `{today}` is"),
            None => "leave it out".to_owned(),
        };
        let name = self.name_of(key.name);
        let shown = self.shown(&value);
        let sentence = format!("`{name} = {shown}` is not available in this release: {way_out}");
        Err(Fault::at(Some(value.span().start), sentence))
    }

    /// The value stays out of the sentence: a misspelt `password` has one too.
    fn unknown(&self, name: &str, start: usize) -> Fault {
        let full = self.name_of(name);
        if let Some(ours) = foreign::our_name(name) {
            return Fault::at(Some(start), format!("`{full}` is a server's name: {ours}"));
        }
        let place = match self.path {
            "" => "the top of the file".to_owned(),
            path => format!("[{path}]"),
        };
        let known: Vec<_> = self.keys.iter().map(|key| key.name()).collect();
        let sections = if self.path.is_empty() {
            " and the sections [[source]], [relay], [binlog], [replicas], [http], [log]"
        } else {
            ""
        };
        Fault::at(
            Some(start),
            format!("`{full}` is unknown: {place} takes {}{sections}", known.join(", ")),
        )
    }

    fn refuse<T>(&self, key: &Key<T>, value: &Spanned<DeValue<'a>>) -> Fault {
        let name = self.name_of(key.name);
        let shown = if key.secret { "…".into() } else { self.shown(value) };
        let sentence = format!("`{name} = {shown}` is refused: allowed is {}", key.allowed);
        Fault::at(Some(value.span().start), sentence)
    }

    /// A refusal of the section as a whole.
    pub(super) fn fault(&self, sentence: String) -> Fault {
        Fault::at(self.start, sentence)
    }

    /// The value as the file writes it, on one line and not too long.
    fn shown(&self, value: &Spanned<DeValue<'a>>) -> String {
        const LONGEST: usize = 60;
        let written = self.text.get(value.span()).unwrap_or("…");
        let line = written.split_whitespace().collect::<Vec<_>>().join(" ");
        match line.char_indices().nth(LONGEST) {
            Some((end, _)) => format!("{}…", line.get(..end).unwrap_or_default()),
            None => line,
        }
    }

    fn name_of(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }
}

fn last_name(path: &'static str) -> &'static str {
    path.rsplit('.').next().unwrap_or(path)
}

/// Equal in meaning for the simple values that [`Unavailable::today`] takes.
fn same(one: &DeValue<'_>, other: &DeValue<'_>) -> bool {
    match (one, other) {
        (DeValue::String(one), DeValue::String(other)) => one == other,
        (DeValue::Boolean(one), DeValue::Boolean(other)) => one == other,
        (DeValue::Integer(one), DeValue::Integer(other)) => one.as_str() == other.as_str(),
        (DeValue::Array(one), DeValue::Array(other)) => one.is_empty() && other.is_empty(),
        _ => false,
    }
}
