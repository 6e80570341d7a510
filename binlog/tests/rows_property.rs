//! The packer on random tables, rows, images and cuts, against a model that knows where each row ends;
//! and on bytes no server would send.

use proptest::collection::vec;
use proptest::prelude::*;
use spillway_binlog::rows::{MIN_EVENT_SIZE, RowsLayout, RowsPacker};

const STMT_END: u16 = 1;

/// A column's type as the table map says it, and values as a row has them.
#[derive(Debug, Clone)]
struct Column {
    type_code: u8,
    metadata: Vec<u8>,
    value: Value,
}

#[derive(Debug, Clone, Copy)]
enum Value {
    Fixed(usize),
    /// Bytes of the length, and the longest value to try.
    Prefixed(usize, usize),
}

/// Rows that may be packed together, if nothing comes between them.
#[derive(Debug, Clone)]
struct Run {
    table: usize,
    event_type: u8,
    /// Post-header behind the flags, column count, bitmaps.
    fixed_part: Vec<u8>,
    rows: Vec<Vec<u8>>,
}

fn column() -> impl Strategy<Value = Column> {
    let fixed = |type_code, metadata: &[u8], width| {
        Just(Column { type_code, metadata: metadata.to_vec(), value: Value::Fixed(width) }).boxed()
    };
    let plain = [(1, 1), (2, 2), (9, 3), (3, 4), (8, 8), (10, 3), (13, 1)];
    let mut all: Vec<_> = plain.iter().map(|&(code, width)| fixed(code, &[], width)).collect();
    all.extend([fixed(4, &[4], 4), fixed(5, &[8], 8), fixed(246, &[65, 38], 29)]);
    all.extend([fixed(246, &[10, 2], 5), fixed(254, &[0xf7, 2], 2), fixed(254, &[0xf8, 8], 8)]);
    all.extend([fixed(16, &[5, 1], 2), fixed(17, &[3], 6), fixed(18, &[6], 8), fixed(19, &[1], 4)]);
    let prefixed = |type_code, metadata: &[u8], prefix, longest| {
        let value = Value::Prefixed(prefix, longest);
        Just(Column { type_code, metadata: metadata.to_vec(), value }).boxed()
    };
    all.extend([prefixed(15, &[255, 0], 1, 255), prefixed(15, &[0, 1], 2, 256)]);
    all.extend([prefixed(254, &[0xfe, 40], 1, 40), prefixed(254, &[0xce, 0xfc], 2, 300)]);
    all.extend([prefixed(252, &[1], 1, 200), prefixed(252, &[2], 2, 400)]);
    all.extend([prefixed(252, &[3], 3, 500), prefixed(252, &[4], 4, 600)]);
    all.extend([prefixed(255, &[4], 4, 25), prefixed(141, &[100, 0], 1, 100)]);
    all.extend([prefixed(140, &[4], 4, 90), prefixed(245, &[4], 4, 90)]);
    prop::strategy::Union::new(all)
}

fn table() -> impl Strategy<Value = Vec<Column>> {
    prop_oneof![
        8 => vec(column(), 1..12),
        1 => vec(column(), 30..80),
        1 => (column(), 245_usize..300).prop_map(|(column, count)| vec![column; count]),
    ]
}

fn image(table: &[Column], present: &[bool], seed: u64) -> Vec<u8> {
    let mut random = Random(seed);
    let present: Vec<_> = table.iter().zip(present).filter(|(_, here)| **here).collect();
    let mut nulls = vec![0xff_u8; present.len().div_ceil(8)];
    let mut values = vec![];
    let all_present = random.below(2) == 0;
    for (at, (column, _)) in present.iter().enumerate() {
        if !all_present && random.below(4) == 0 {
            continue;
        }
        nulls[at / 8] &= !(1 << (at % 8));
        let len = match column.value {
            Value::Fixed(width) => width,
            Value::Prefixed(prefix, longest) => {
                let len = [0, 1, longest, random.below(longest + 1)][random.below(4)];
                values.extend(&len.to_le_bytes()[..prefix]);
                len
            }
        };
        values.extend((0..len).map(|_| random.byte()));
    }
    [nulls, values].concat()
}

fn run(tables: Vec<Vec<Column>>) -> impl Strategy<Value = Run> {
    let kinds = prop::sample::select(vec![23_u8, 24, 25, 30, 31, 32]);
    (0..tables.len(), kinds, any::<u64>(), 0..3_u8, 1_usize..40).prop_map(
        move |(table, event_type, seed, images, count)| {
            let columns = &tables[table];
            let mut random = Random(seed);
            let mut bitmap = |first: bool| -> Vec<bool> {
                let minimal = images == 0;
                let mut bits: Vec<_> =
                    columns.iter().map(|_| !minimal || random.below(2) == 0).collect();
                bits[0] |= first;
                bits
            };
            let update = event_type == 24 || event_type == 31;
            let before = bitmap(true);
            let after = update.then(|| bitmap(false));
            let mut fixed_part =
                if event_type >= 30 { extra_data(images).to_vec() } else { vec![] };
            fixed_part.extend(packed(columns.len()));
            fixed_part.extend(bitmap_bytes(&before));
            fixed_part.extend(after.iter().flat_map(|bits| bitmap_bytes(bits)));
            let mut random = Random(seed ^ 1);
            let row = |_| {
                let mut row = image(columns, &before, random.next());
                if let Some(after) = &after {
                    row.extend(image(columns, after, random.next()));
                }
                row
            };
            Run { table, event_type, fixed_part, rows: (0..count).map(row).collect() }
        },
    )
}

fn extra_data(variant: u8) -> &'static [u8] {
    if variant == 1 { &[5, 0, 1, 7, 7] } else { &[2, 0] }
}

fn bitmap_bytes(bits: &[bool]) -> Vec<u8> {
    let byte = |bits: &[bool]| (0..bits.len()).map(|at| u8::from(bits[at]) << at).sum();
    bits.chunks(8).map(byte).collect()
}

fn packed(number: usize) -> Vec<u8> {
    match u8::try_from(number) {
        Ok(small @ 0..=250) => vec![small],
        _ => [&[252], &number.to_le_bytes()[..2]].concat(),
    }
}

fn event(event_type: u8, body: &[u8]) -> Vec<u8> {
    let mut event = 77_u32.to_le_bytes().to_vec();
    event.push(event_type);
    event.extend(1_u32.to_le_bytes());
    event.extend(u32::try_from(19 + body.len()).unwrap().to_le_bytes());
    event.extend([0; 6]);
    event.extend(body);
    event
}

fn table_map(id: usize, columns: &[Column]) -> Vec<u8> {
    let mut body = id.to_le_bytes()[..6].to_vec();
    body.extend(b"\x01\0\x01d\0\x01t\0");
    body.extend(packed(columns.len()));
    body.extend(columns.iter().map(|column| column.type_code));
    let metadata: Vec<_> = columns.iter().flat_map(|column| column.metadata.clone()).collect();
    body.extend(packed(metadata.len()));
    body.extend(metadata);
    body.resize(body.len() + columns.len().div_ceil(8), 0xff);
    event(19, &body)
}

fn rows_event(run: &Run, rows: &[Vec<u8>], end: bool) -> Vec<u8> {
    let mut body = run.table.to_le_bytes()[..6].to_vec();
    body.extend(if end { STMT_END } else { 0 }.to_le_bytes());
    body.extend(&run.fixed_part);
    body.extend(rows.concat());
    event(run.event_type, &body)
}

/// What is to come out: as many rows in each event as fit, one at least.
fn packed_by_the_model(runs: &[Run], limit: usize) -> Vec<Vec<u8>> {
    let mut merged: Vec<Run> = vec![];
    for run in runs {
        match merged.last_mut() {
            Some(last)
                if (last.table, last.event_type, &last.fixed_part)
                    == (run.table, run.event_type, &run.fixed_part) =>
            {
                last.rows.extend(run.rows.clone());
            }
            _ => merged.push(run.clone()),
        }
    }
    let mut events = vec![];
    for (at, run) in merged.iter().enumerate() {
        let empty = rows_event(run, &[], false).len() - 19;
        let mut rows = run.rows.as_slice();
        while !rows.is_empty() {
            let (mut count, mut size) = (1, empty + rows[0].len());
            while count < rows.len() && size + rows[count].len() <= limit {
                size += rows[count].len();
                count += 1;
            }
            let end = at + 1 == merged.len() && count == rows.len();
            events.push(rows_event(run, &rows[..count], end));
            rows = &rows[count..];
        }
    }
    events
}

/// The same rows in input events of random numbers of rows.
fn chopped(runs: &[Run], seed: u64, most: usize) -> Vec<Vec<u8>> {
    let mut random = Random(seed);
    let mut events = vec![];
    for (at, run) in runs.iter().enumerate() {
        let mut rows = run.rows.as_slice();
        while !rows.is_empty() {
            let count = (1 + random.below(most)).min(rows.len());
            let end = at + 1 == runs.len() && count == rows.len();
            events.push(rows_event(run, &rows[..count], end));
            rows = &rows[count..];
        }
    }
    events
}

fn pack(packer: &mut RowsPacker, events: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let mut out: Vec<u8> = vec![];
    for event in events {
        packer.push(event, &mut out).unwrap();
    }
    packer.flush(&mut out).unwrap();
    let (mut events, mut rest) = (vec![], out.as_slice());
    while !rest.is_empty() {
        let size = u32::from_le_bytes(rest[9..13].try_into().unwrap()) as usize;
        events.push(rest[..size].to_vec());
        rest = &rest[size..];
    }
    events
}

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed ^ mixed >> 31
    }

    fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() >> 33).unwrap() % bound
    }

    fn byte(&mut self) -> u8 {
        self.next().to_le_bytes()[3]
    }
}

type Statement = (Vec<Vec<Column>>, Vec<Run>);

fn statement() -> impl Strategy<Value = Statement> {
    vec(table(), 1..3)
        .prop_flat_map(|tables| (Just(tables.clone()), vec(run(tables), 1..5)))
        .prop_map(|(tables, mut runs)| {
            // Now and then a run is continued, as when its rows came from two places.
            if runs.len() > 2 {
                runs[1] = runs[0].clone();
            }
            (tables, runs)
        })
}

fn maps(tables: &[Vec<Column>]) -> Vec<Vec<u8>> {
    tables.iter().enumerate().map(|(id, columns)| table_map(id, columns)).collect()
}

proptest! {
    #[test]
    fn rows_come_out_as_the_model_packs_them(
        (tables, runs) in statement(),
        limit in prop_oneof![MIN_EVENT_SIZE..2_000, Just(64 << 10)],
        cuts in vec((any::<u64>(), 1_usize..60), 3),
    ) {
        let expected = [maps(&tables), packed_by_the_model(&runs, limit)].concat();
        let mut packer = RowsPacker::new(limit, RowsLayout::default());
        for (seed, most) in cuts {
            let events = [maps(&tables), chopped(&runs, seed, most)].concat();
            prop_assert_eq!(&pack(&mut packer, &events), &expected);
        }
        prop_assert_eq!(packer.counters().malformed, 0);
        prop_assert!(packer.take_unpacked().is_empty());
    }

    /// Bytes changed, cut off or added anywhere: no panic, the rows of events that do not parse stay as
    /// they are, and what came out comes out again.
    #[test]
    fn hostile_events_pass_or_are_packed_without_a_panic(
        (tables, runs) in statement(),
        seed in any::<u64>(),
        changes in vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), any::<u8>(), 0..4_u8), 1..8),
    ) {
        let mut events = [maps(&tables), chopped(&runs, seed, 10)].concat();
        for (event, byte, value, how) in changes {
            let event = event.get_mut(&mut events);
            let at = 4 + byte.index(event.len() - 4);
            match how {
                0 => event.truncate(at.max(19)),
                1 => event.extend([value; 3]),
                _ => event[at] = value,
            }
        }
        let mut packer = RowsPacker::new(512, RowsLayout::default());
        let out = pack(&mut packer, &events);
        prop_assert_eq!(pack(&mut packer, &out), out);
    }

    #[test]
    fn random_bytes_are_no_danger(
        events in vec((prop::sample::select(vec![19_u8, 23, 24, 25, 30, 31, 32, 39, 166]), vec(any::<u8>(), 0..300)), 1..20),
    ) {
        let events: Vec<_> = events.iter().map(|(event_type, body)| event(*event_type, body)).collect();
        let mut packer = RowsPacker::new(256, RowsLayout::default());
        let out = pack(&mut packer, &events);
        prop_assert_eq!(pack(&mut packer, &out), out);
    }
}
