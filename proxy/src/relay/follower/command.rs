//! The commands of the protocol: their numbers, their names, and what kind of reply each has.

/// A command's number, the first byte of its packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Command(pub u8);

/// What a server answers to a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReplyKind {
    /// Nothing.
    None,
    /// One OK, EOF or ERR.
    Simple,
    /// OK, ERR, a request for a local file, or a result set; perhaps several of them.
    Results,
    /// Rows of an open cursor.
    Rows,
    /// A statement id, then definitions of parameters and columns.
    Prepare,
    /// Column definitions until an EOF.
    FieldList,
    /// One packet of text.
    Text,
    /// An authentication dialogue that ends with OK or ERR.
    Dialogue,
    /// Events without an end.
    Stream,
    /// Not known here.
    Unknown,
}

macro_rules! commands {
    ($($number:literal $name:literal $constant:ident $kind:ident)*) => {
        impl Command {
            $(#[doc = concat!("`COM_", stringify!($constant), "`")] pub const $constant: Self = Self($number);)*

            /// The names of all commands for labels; the last one stands for those not known here.
            pub const NAMES: &'static [&'static str] = &[$($name,)* "unknown"];

            /// The place of this command in [`Self::NAMES`].
            pub fn index(self) -> usize {
                const NUMBERS: &[u8] = &[$($number),*];
                const INDEX: [u8; 256] = index_of(NUMBERS);
                INDEX[usize::from(self.0)].into()
            }

            pub(super) fn reply_kind(self) -> ReplyKind {
                match self.0 {
                    $($number => ReplyKind::$kind,)*
                    _ => ReplyKind::Unknown,
                }
            }
        }
    };
}

// Commands that servers of today refuse have Simple: the one reply is an ERR.
commands! {
    0x00 "sleep" SLEEP Simple
    0x01 "quit" QUIT None
    0x02 "init_db" INIT_DB Simple
    0x03 "query" QUERY Results
    0x04 "field_list" FIELD_LIST FieldList
    0x05 "create_db" CREATE_DB Simple
    0x06 "drop_db" DROP_DB Simple
    0x07 "refresh" REFRESH Simple
    0x08 "shutdown" SHUTDOWN Simple
    0x09 "statistics" STATISTICS Text
    0x0a "process_info" PROCESS_INFO Results
    0x0b "connect" CONNECT Simple
    0x0c "process_kill" PROCESS_KILL Simple
    0x0d "debug" DEBUG Simple
    0x0e "ping" PING Simple
    0x0f "time" TIME Simple
    0x10 "delayed_insert" DELAYED_INSERT Simple
    0x11 "change_user" CHANGE_USER Dialogue
    0x12 "binlog_dump" BINLOG_DUMP Stream
    0x15 "register_slave" REGISTER_SLAVE Simple
    0x16 "stmt_prepare" STMT_PREPARE Prepare
    0x17 "stmt_execute" STMT_EXECUTE Results
    0x18 "stmt_send_long_data" STMT_SEND_LONG_DATA None
    0x19 "stmt_close" STMT_CLOSE None
    0x1a "stmt_reset" STMT_RESET Simple
    0x1b "set_option" SET_OPTION Simple
    0x1c "stmt_fetch" STMT_FETCH Rows
    0x1e "binlog_dump_gtid" BINLOG_DUMP_GTID Stream
    0x1f "reset_connection" RESET_CONNECTION Simple
    0xfa "stmt_bulk_execute" STMT_BULK_EXECUTE Results
}

impl Command {
    /// The command's name as a label.
    pub fn name(self) -> &'static str {
        Self::NAMES.get(self.index()).copied().unwrap_or("unknown")
    }

    /// Whether the server answers it.
    pub fn has_reply(self) -> bool {
        self.reply_kind() != ReplyKind::None
    }
}

impl std::fmt::Display for Command {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.reply_kind() {
            ReplyKind::Unknown => write!(f, "command 0x{:02x}", self.0),
            _ => f.write_str(self.name()),
        }
    }
}

/// Place of each number in the list; that of an unlisted one is the list's length, which fits as there are 256 numbers at most.
#[expect(clippy::cast_possible_truncation, reason = "there is no checked cast in a const fn")]
const fn index_of(numbers: &[u8]) -> [u8; 256] {
    let mut table = [numbers.len() as u8; 256];
    let mut at = 0;
    while at < numbers.len() {
        table[numbers[at] as usize] = at as u8;
        at += 1;
    }
    table
}
