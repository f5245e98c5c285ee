//! The last exchanges, bounded by bytes, and what their callers say of them.
//!
//! In: records, and judgements of them. Out: the newest ones, newest first. A record is shared, never copied or changed, and
//! leaves when newer ones need its room; what is said of it stands beside it and leaves with it.

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;
use std::sync::Arc;

use greylag_filters::feedback::{Feedback, Full, Heard, Id};
use greylag_filters::meter::Figures;
use greylag_filters::success::Use;
use parking_lot::Mutex;

use crate::record::Record;

/// A bounded queue of records.
#[derive(Debug)]
pub struct Ring {
    limit: u64,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    // 0 <= bytes <= limit; the sum of the weights of `entries`
    bytes: u64,
    // the number of the oldest entry; they are numbered as they come
    first: u64,
    entries: VecDeque<Entry>,
}

/// An exchange that the ring holds.
#[derive(Clone, Debug)]
pub struct Entry {
    /// What was known when it ended.
    pub record: Arc<Record>,
    /// The label of its model in the metrics.
    pub model: Arc<str>,
    /// Whether it was of use, by all that is known; none where that is not judged.
    pub success: Option<Use>,
    /// What its caller has said of it.
    pub heard: Option<Arc<Heard>>,
    // of the record's id: entries that are not meant are passed over without a look at their records
    hash: u64,
}

/// A judgement that was taken.
#[derive(Debug)]
pub struct Taken {
    /// The exchange as it is known by now.
    pub entry: Entry,
    /// Whether it was of use, by what was known before.
    pub before: Use,
}

/// Why a judgement was not taken.
#[derive(Debug)]
pub enum NotTaken {
    /// No exchange of this id that is judged is held.
    Unknown,
    /// The exchange has as many metrics as it may have: these.
    Full(Arc<Heard>),
}

impl Ring {
    /// A ring of at most `limit` bytes; 0 keeps nothing.
    pub fn new(limit: u64) -> Self {
        Ring {
            limit,
            inner: Mutex::default(),
        }
    }

    /// Adds a record, whose model has this label; old ones make room.
    pub fn push(&self, record: Arc<Record>, model: Arc<str>) {
        let entry = Entry {
            hash: hash(&record.id),
            success: record.success,
            heard: None,
            record,
            model,
        };
        let weight = entry.weight();
        if weight > self.limit {
            return;
        }
        // What leaves is freed after the lock.
        let mut left = Vec::new();
        let mut inner = self.inner.lock();
        inner.make_room(self.limit.saturating_sub(weight), &mut left);
        inner.bytes += weight;
        inner.entries.push_back(entry);
    }

    /// Takes in what a caller says of the newest judged exchange of that id. Should there be no room for it, the oldest leave.
    ///
    /// # Errors
    /// There is no such exchange, or it takes no more metrics; nothing has changed then.
    pub fn hear(&self, feedback: Feedback) -> Result<Taken, NotTaken> {
        let hash = hash(feedback.request_id.as_str());
        let mut end = u64::MAX;
        loop {
            let mut left = Vec::new();
            // Let go of between two looks, since every exchange that ends waits for it.
            let mut inner = self.inner.lock();
            end = end.min(inner.next());
            let start = end.saturating_sub(AT_A_LOOK).max(inner.first);
            if start >= end {
                return Err(NotTaken::Unknown);
            }
            if let Some(place) = inner.find(start..end, hash, &feedback.request_id) {
                let taken = inner.hear(place, feedback);
                inner.make_room(self.limit, &mut left);
                return taken;
            }
            end = start;
        }
    }

    /// The newest `most` records that `wanted` accepts, newest first.
    pub fn newest(&self, most: usize, wanted: impl Fn(&Record) -> bool) -> Vec<Arc<Record>> {
        self.look(most, |entry| entry.record.clone(), |record| wanted(record))
    }

    /// The same, with what was said of them.
    pub fn entries(&self, most: usize, wanted: impl Fn(&Record) -> bool) -> Vec<Entry> {
        self.look(most, Entry::clone, |entry| wanted(&entry.record))
    }

    fn look<T>(
        &self,
        most: usize,
        take: impl Fn(&Entry) -> T,
        wanted: impl Fn(&T) -> bool,
    ) -> Vec<T> {
        // Pointers are taken under the lock, and looked into after it.
        let all: Vec<T> = self.inner.lock().entries.iter().rev().map(take).collect();
        all.into_iter().filter(wanted).take(most).collect()
    }
}

/// How many entries are looked at in one hold of the lock.
const AT_A_LOOK: u64 = 1024;

impl Inner {
    // The number of the entry that comes next.
    fn next(&self) -> u64 {
        self.first + self.entries.len() as u64
    }

    // The place of the newest judged exchange of that id among the entries of these numbers.
    fn find(&self, numbers: Range<u64>, hash: u64, id: &Id) -> Option<usize> {
        let place = |number: u64| usize::try_from(number.saturating_sub(self.first)).ok();
        let (start, end) = (place(numbers.start)?, place(numbers.end)?);
        let mut among = self.entries.range(start..end.min(self.entries.len()));
        let found = among.rposition(|entry| {
            entry.hash == hash && entry.success.is_some() && entry.is_called(id)
        });
        found.map(|found| start + found)
    }

    fn hear(&mut self, place: usize, feedback: Feedback) -> Result<Taken, NotTaken> {
        let entry = self.entries.get_mut(place).ok_or(NotTaken::Unknown)?;
        let before = entry.success.ok_or(NotTaken::Unknown)?;
        let said_before = entry.said();
        let is_negative = feedback.value.is_negative();
        let heard = entry.heard.get_or_insert_default();
        if let Err(Full) = Arc::make_mut(heard).hear(feedback.metric, feedback.value) {
            return Err(NotTaken::Full(heard.clone()));
        }
        entry.success = Some(before.heard(is_negative));
        let entry = entry.clone();
        self.bytes = self.bytes - said_before + entry.said();
        Ok(Taken { entry, before })
    }

    // The oldest leave until the others hold at most so many bytes.
    fn make_room(&mut self, most: u64, left: &mut Vec<Entry>) {
        while self.bytes > most {
            let Some(oldest) = self.entries.pop_front() else {
                break;
            };
            self.first += 1;
            self.bytes -= oldest.weight();
            left.push(oldest);
        }
    }
}

impl Entry {
    fn is_called(&self, id: &Id) -> bool {
        *self.record.id == *id.as_str()
    }

    fn weight(&self) -> u64 {
        // A queue that has grown has room for up to twice what it holds.
        const PLACE: u64 = 2 * size_of::<Entry>() as u64;
        PLACE + weight(&self.record) + self.said()
    }

    // What the caller has said, in bytes.
    fn said(&self) -> u64 {
        let heard = self.heard.as_deref();
        heard.map_or(0, |heard| (size_of::<Heard>() + heard.size()) as u64)
    }
}

// No secret: whoever finds ids that meet makes his own judgements slower to take.
fn hash(id: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    id.hash(&mut hasher);
    hasher.finish()
}

/// What a record holds, in bytes.
pub(super) fn weight(record: &Record) -> u64 {
    let said = [&record.model, &record.x_trace_id, &record.trace_state];
    let said = said.into_iter().flatten().map(|text| text.len());
    let texts = record.id.len() + record.path.len() + said.sum::<usize>();
    let timeline = record.timeline.size();
    let figures = record.figures.as_ref().map_or(0, self::said);
    let requests = record.requests.as_ref().map_or(0, |requests| {
        let kept = requests.kept();
        let texts = kept
            .iter()
            .map(|one| one.id.len() + self::said(&one.figures));
        size_of_val(kept) + texts.sum::<usize>()
    });
    (size_of::<Record>() + texts + timeline + figures + requests) as u64
}

// The texts that an engine's answer brought into the record.
fn said(figures: &Figures) -> usize {
    let error = figures.error.as_ref();
    let words = error.map(|error| [error.code.as_ref(), error.kind.as_ref()]);
    let words = words.into_iter().flatten().flatten();
    words
        .chain(figures.model.as_ref())
        .map(|text| text.len())
        .sum()
}

#[cfg(test)]
mod tests;
