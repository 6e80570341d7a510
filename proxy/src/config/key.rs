//! What a configuration key is: one constant holding its meaning, bounds, default and reader.

use toml::de::DeValue;

/// A key with a function in this release.
pub(super) struct Key<T> {
    /// Its name within its section.
    pub(super) name: &'static str,
    /// What it does, for docs/CONFIG.md.
    pub(super) meaning: &'static str,
    /// What values it takes, as it reads after "allowed is".
    pub(super) allowed: &'static str,
    /// The value where the file has none, as TOML; `None`: there is no such value.
    pub(super) default: Option<&'static str>,
    /// Whether SIGHUP applies a change.
    pub(super) reload: bool,
    /// Whether the value must never be shown.
    pub(super) secret: bool,
    /// Reads a value; `None` refuses it.
    pub(super) parse: fn(&DeValue<'_>) -> Option<T>,
}

/// A key of the interface whose function does not exist in this release. To make it real, turn its constant into a [`Key`]
/// and read it into its section's struct.
pub(super) struct Unavailable {
    /// Its name within its section.
    pub(super) name: &'static str,
    /// What it will do, for docs/CONFIG.md.
    pub(super) meaning: &'static str,
    /// The one value that says what happens today, as TOML; such a value is accepted.
    pub(super) today: Option<&'static str>,
}

/// What a section needs to know of a key without its type.
pub(super) trait Described: Sync {
    /// The key's name within its section.
    fn name(&self) -> &'static str;
    /// The row in docs/CONFIG.md.
    fn row(&self) -> Row;
    /// The key, if it is one without a function yet.
    fn unavailable(&self) -> Option<&Unavailable>;
}

/// A key's row in docs/CONFIG.md.
pub(super) struct Row {
    /// Its name.
    pub(super) name: &'static str,
    /// What it does.
    pub(super) meaning: &'static str,
    /// What values it takes.
    pub(super) allowed: String,
    /// Its default as TOML, or what its absence means.
    pub(super) default: Option<&'static str>,
    /// When a change applies.
    pub(super) applies: &'static str,
}

impl<T> Described for Key<T> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn row(&self) -> Row {
        Row {
            name: self.name,
            meaning: self.meaning,
            allowed: self.allowed.to_owned(),
            default: self.default,
            applies: if self.reload { "reload" } else { "restart" },
        }
    }

    fn unavailable(&self) -> Option<&Unavailable> {
        None
    }
}

impl Described for Unavailable {
    fn name(&self) -> &'static str {
        self.name
    }

    fn row(&self) -> Row {
        let allowed = match self.today {
            Some(today) => {
                format!("**not available in this release**: only `{today}`, which is what happens")
            }
            None => "**not available in this release**: leave it out".to_owned(),
        };
        Row { name: self.name, meaning: self.meaning, allowed, default: self.today, applies: "—" }
    }

    fn unavailable(&self) -> Option<&Unavailable> {
        Some(self)
    }
}
