//! What a power cut may leave of what was not synced.

use super::{Disk, Effect, Inode, Random, Rename, apply, write};

impl Disk {
    /// The disk after a power cut.
    pub(super) fn image(&self, random: &mut Random) -> Self {
        let mut names = self.durable.clone();
        let keep = Keep::new(random, self.unsynced.len());
        for (index, Rename { inode, from, to }) in self.unsynced.iter().enumerate() {
            if keep.keeps(random, index) {
                // The old name goes after the new one came.
                let from = from.as_deref().filter(|_| to.is_none() || !random.one_in(4));
                apply(&mut names, *inode, from, to.as_deref());
            }
        }
        let inodes = self.inodes.iter().map(|inode| inode.image(random)).collect();
        let (dirs, clock) = (self.dirs.clone(), self.clock);
        Self { durable: names.clone(), names, inodes, dirs, clock, ..Self::default() }
    }
}

impl Inode {
    /// What is left of it after a power cut.
    fn image(&self, random: &mut Random) -> Self {
        let mut content = self.synced.clone();
        let keep = Keep::new(random, self.unsynced.len());
        let block = if random.one_in(2) { 512 } else { 4096 };
        for (index, effect) in self.unsynced.iter().enumerate() {
            if keep.keeps(random, index) {
                effect.apply(&mut content);
            } else if keep.tears(index) {
                effect.apply_torn(&mut content, block, random);
            }
        }
        let modified = if content == self.content { self.modified } else { self.synced_modified };
        let (synced, unsynced) = (content.clone(), Vec::new());
        Self { content, synced, unsynced, modified, synced_modified: modified }
    }
}

impl Effect {
    /// Writes some of the blocks; the length may have grown to that of the whole, or not.
    fn apply_torn(&self, content: &mut Vec<u8>, block: usize, random: &mut Random) {
        let Self::Write { at, bytes } = self else { return };
        if random.one_in(2) {
            content.resize(content.len().max(at + bytes.len()), 0);
        }
        let in_order = random.one_in(2).then(|| random.below(bytes.len()));
        let mut from = 0;
        while from < bytes.len() {
            let to = (((at + from) / block + 1) * block - at).min(bytes.len());
            if in_order.map_or_else(|| random.one_in(2), |end| to <= end) {
                write(content, at + from, bytes.get(from..to).unwrap_or_default());
            }
            from = to;
        }
    }
}

/// Which of a number of unsynced effects are kept.
enum Keep {
    Nothing,
    /// Those before this one, which is torn.
    Before(usize),
    Some,
}

impl Keep {
    fn new(random: &mut Random, count: usize) -> Self {
        match random.below(4) {
            0 => Self::Nothing,
            1 => Self::Before(usize::MAX),
            2 => Self::Before(random.below(count + 1)),
            _ => Self::Some,
        }
    }

    fn keeps(&self, random: &mut Random, index: usize) -> bool {
        match self {
            Self::Nothing => false,
            Self::Before(end) => index < *end,
            Self::Some => random.one_in(2),
        }
    }

    fn tears(&self, index: usize) -> bool {
        match self {
            Self::Nothing => false,
            Self::Before(end) => index == *end,
            Self::Some => true,
        }
    }
}
