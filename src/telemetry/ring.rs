//! The last exchanges, bounded by bytes.
//!
//! In: records. Out: the newest ones, newest first. A record is shared, never copied, and leaves when newer ones need
//! its room.

use std::collections::VecDeque;
use std::sync::Arc;

use greylag_filters::meter::Figures;
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
    // 0 <= bytes <= limit; the sum of the weights in `records`
    bytes: u64,
    records: VecDeque<Arc<Record>>,
}

impl Ring {
    /// A ring of at most `limit` bytes; 0 keeps nothing.
    pub fn new(limit: u64) -> Self {
        Ring {
            limit,
            inner: Mutex::default(),
        }
    }

    /// Adds a record; old ones make room.
    pub fn push(&self, record: Arc<Record>) {
        let weight = weight(&record);
        if weight > self.limit {
            return;
        }
        // What leaves is freed after the lock.
        let mut left = Vec::new();
        let mut inner = self.inner.lock();
        while inner.bytes + weight > self.limit {
            let Some(oldest) = inner.records.pop_front() else {
                break;
            };
            inner.bytes -= self::weight(&oldest);
            left.push(oldest);
        }
        inner.bytes += weight;
        inner.records.push_back(record);
    }

    /// The newest `most` records that `wanted` accepts, newest first.
    pub fn newest(&self, most: usize, wanted: impl Fn(&Record) -> bool) -> Vec<Arc<Record>> {
        // Pointers are taken under the lock, and looked into after it.
        let all: Vec<Arc<Record>> = self.inner.lock().records.iter().rev().cloned().collect();
        all.into_iter()
            .filter(|record| wanted(record))
            .take(most)
            .collect()
    }
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
mod tests {
    use super::*;

    fn record(id: u64) -> Arc<Record> {
        Arc::new(Record {
            id: id.to_string().into(),
            ..Record::default()
        })
    }

    #[test]
    fn old_records_make_room_for_new_ones() {
        let room = 10 * weight(&record(0));
        let ring = Ring::new(room);
        for id in 0..100 {
            ring.push(record(id));
        }
        assert!(ring.inner.lock().bytes <= room);
        let newest = ring.newest(3, |record| !record.id.ends_with('8'));
        let ids: Vec<&str> = newest.iter().map(|record| &*record.id).collect();
        assert_eq!(ids, ["99", "97", "96"]);
    }

    #[test]
    fn a_ring_without_room_keeps_nothing() {
        let ring = Ring::new(0);
        ring.push(record(1));
        assert!(ring.newest(1, |_| true).is_empty());
    }
}
