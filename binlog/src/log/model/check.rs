//! What must be there when the log is opened again.

use super::*;
use crate::event::gtid::GtidEvent;
use crate::event::{EventHeader, control, gtid_list};
use crate::reader::{FileScan, Run};
use crate::transaction::group::{GroupTracker, Step};

/// Opens the log on what a life has left, and holds it against the model, which forgets what was lost: that is submitted again.
pub(super) fn reopened(
    model: &mut Model,
    disk: &CrashFileSystem,
    limits: &Limits,
    kept: [usize; SOURCES],
    context: &str,
) -> CrashFileSystem {
    let log = Log::open(limits.options(disk)).unwrap_or_else(|error| panic!("{context}: {error}"));
    let found = Found::read(disk, model.was_full, context);
    assert_eq!(log.gtid_state().list(), found.state.list(), "{context}");
    let first = log.files().first().map_or(1, |file| file.number);
    let asked = model.purged.max(1)..=model.purge_asked.max(1);
    assert!(asked.contains(&first), "{context}: purged up to {first}, asked for {asked:?}");
    for (source, kept) in kept.into_iter().enumerate() {
        let purged = found.purged[source];
        let left = found.transactions.get(&domain(source)).map_or(0, Vec::len);
        let there = purged + left;
        let (durable, submitted) = (model.durable[source], model.submitted[source].len());
        let promised = durable.max(kept.min(submitted));
        assert!(there >= promised, "{context}: source {source} has {there}, promised {promised}");
        assert!(there <= submitted, "{context}: source {source} has {there} of {submitted}");
        for (at, notes) in found.transactions.get(&domain(source)).into_iter().flatten().enumerate()
        {
            assert_eq!(*notes, model.submitted[source][purged + at], "{context}: {source}-{at}");
        }
        model.submitted[source].truncate(there);
        // What was served once must stay.
        model.durable[source] = there;
    }
    let count: usize = found.transactions.values().map(Vec::len).sum();
    assert_eq!(served(&log), count, "{context}: served to a reader");
    log.close();
    assert_eq!(names(disk, "/log/#binlog_cache_files"), [""; 0], "{context}");
    disk.after_kill()
}

/// Transactions a cursor sees from the oldest file on.
pub(super) fn served(log: &Log) -> usize {
    let Some(first) = log.files().first().cloned() else { return 0 };
    let mut cursor = log.cursor(first.number, 4).unwrap();
    let mut count = 0;
    loop {
        match cursor.next_run(3000).unwrap() {
            Run::CaughtUp => return count,
            Run::NextFile => {}
            Run::Events(run) => {
                let gtids = run.events().filter(|event| event.1.event_type == EventType::GTID);
                count += gtids.count();
            }
        }
    }
}

fn names(disk: &CrashFileSystem, dir: &str) -> Vec<String> {
    disk.list(Path::new(dir)).unwrap()
}

/// What the files hold.
#[derive(Default)]
struct Found {
    /// Of each domain, the sizes of the notes of its transactions, without a gap.
    transactions: HashMap<u32, Vec<Vec<usize>>>,
    /// How many there were of each source before the oldest file.
    purged: [usize; SOURCES],
    state: GtidState,
}

impl Found {
    /// Reads all files, every check applied: names, index, positions, checksums, groups, Gtid_lists, Rotates.
    fn read(disk: &CrashFileSystem, may_leave_files: bool, context: &str) -> Self {
        let mut numbers: Vec<_> =
            names(disk, "/log").iter().filter_map(|name| file_number("binlog", name)).collect();
        numbers.sort_unstable();
        let mut found = Self::default();
        // Before anything was begun there may be a file without header events, and no index.
        let index = disk.get(Path::new("/log/binlog.index")).unwrap_or_default();
        if index.is_empty() {
            assert!(numbers.len() <= 1, "{context}");
            return found;
        }
        let index = String::from_utf8(index).unwrap();
        if may_leave_files {
            let first = index.lines().next().and_then(|name| file_number("binlog", name)).unwrap();
            numbers.retain(|number| *number >= first);
        }
        let expected: String =
            numbers.iter().map(|number| format!("{}\n", file_name("binlog", *number))).collect();
        assert_eq!(index, expected, "{context}");
        found.begin(disk, numbers[0], context);
        for number in &numbers {
            let last = Some(number) == numbers.last();
            found.file(disk, *number, last, &format!("{context}, file {number}"));
        }
        found
    }

    /// What was before the oldest file is told by its Gtid_list.
    fn begin(&mut self, disk: &CrashFileSystem, first: u64, context: &str) {
        let path = Path::new("/log").join(file_name("binlog", first));
        let mut scan = FileScan::open(disk, &path).unwrap();
        scan.next_event().unwrap();
        let list = scan.next_event().unwrap().unwrap();
        self.state = GtidState::from_list(&gtid_list::parse(list.event).unwrap().0);
        for source in 0..SOURCES {
            let domain = domain(source);
            self.purged[source] = self.state.latest(domain).map_or(0, index);
            let mut expected = GtidState::default();
            (1..=self.purged[source]).for_each(|number| expected.update(gtid(source, number)));
            assert_eq!(self.state.latest(domain), expected.latest(domain), "{context}");
            for server in [1, 2] {
                let (found, expected) = (&self.state, &expected);
                let (found, expected) =
                    (found.last_of(domain, server), expected.last_of(domain, server));
                assert_eq!(found, expected, "{context}: domain {domain}, server {server}");
            }
        }
    }

    fn file(&mut self, disk: &CrashFileSystem, number: u64, last: bool, context: &str) {
        let path = Path::new("/log").join(file_name("binlog", number));
        let mut scan =
            FileScan::open(disk, &path).unwrap_or_else(|error| panic!("{context}: {error}"));
        let mut groups = GroupTracker::default();
        let mut group = Group::default();
        let mut next = None;
        loop {
            let event = scan.next_event().unwrap_or_else(|error| panic!("{context}: {error}"));
            let Some(event) = event else { break };
            assert_eq!(next, None, "{context}: events behind Rotate");
            let end = event.position + event.raw.len() as u64;
            assert_eq!(u64::from(event.header.end_position), end, "{context}");
            match groups.step(event.event).unwrap_or_else(|error| panic!("{context}: {error}")) {
                Step::Outside => next = self.outside(event.header, event.event, context),
                Step::Begin(GtidEvent { gtid, .. }) => {
                    group = Group { gtid: Some(gtid), notes: vec![] }
                }
                Step::Inside => group.note(event.event, context),
                Step::End => self.end(std::mem::take(&mut group), event.event, context),
                Step::Rider => panic!("{context}: a rider"),
            }
        }
        assert!(!groups.in_group(), "{context}: ends within a transaction");
        let expected = (!last).then(|| file_name("binlog", number + 1));
        assert_eq!(next, expected, "{context}: Rotate");
    }

    /// Checks a file's own event; answers the file a Rotate names.
    fn outside(&self, header: EventHeader, event: &[u8], context: &str) -> Option<String> {
        match header.event_type {
            EventType::GTID_LIST => {
                let list = gtid_list::parse(event).unwrap().0;
                assert_eq!(list, self.state.list(), "{context}: Gtid_list");
                None
            }
            EventType::ROTATE => {
                let (position, name) = control::parse_rotate(event).unwrap();
                assert_eq!(position, 4, "{context}");
                Some(String::from_utf8(name.to_vec()).unwrap())
            }
            other => {
                assert_eq!(other, EventType::FORMAT_DESCRIPTION, "{context}");
                None
            }
        }
    }

    fn end(&mut self, group: Group, xid: &[u8], context: &str) {
        let found = group.gtid.unwrap();
        assert_eq!(xid[EventHeader::LEN..], found.sequence.to_le_bytes(), "{context}");
        let of = self.transactions.entry(found.domain).or_default();
        let source = usize::try_from(found.domain).unwrap();
        let number = self.purged[source] + of.len() + 1;
        assert_eq!(found, gtid(source, number), "{context}: the source's order");
        of.push(group.notes);
        self.state.update(found);
    }
}

#[derive(Default)]
struct Group {
    gtid: Option<Gtid>,
    notes: Vec<usize>,
}

impl Group {
    fn note(&mut self, event: &[u8], context: &str) {
        let note = &event[EventHeader::LEN..];
        let expected = fill(self.gtid.unwrap(), self.notes.len());
        assert!(note.iter().all(|byte| *byte == expected), "{context}: a note's bytes");
        self.notes.push(note.len());
    }
}
