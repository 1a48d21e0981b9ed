//! Which ordinals the pods of a workload have. A partition counts pods, not ordinals.

use serde_json::Value;

use super::marks::read_count;

/// The ordinals that a workload leaves out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ordinals {
    start: i64,
    /// First and last ordinals of what is left out, in ascending order, apart from each other.
    reserved: Vec<(i64, i64)>,
}

impl Ordinals {
    /// Reads `spec.ordinals.start` of StatefulSet and `spec.reserveOrdinals` of Advanced StatefulSet, which has numbers and ranges
    /// (`"3-5"`). What is absent, or means something else to a custom kind, leaves nothing out.
    #[must_use]
    pub(super) fn read(workload: &Value) -> Self {
        let spec = &workload["spec"];
        let start = spec["ordinals"]["start"].as_i64().unwrap_or_default().max(0);
        let written = spec["reserveOrdinals"].as_array().into_iter().flatten();
        let mut ranges: Vec<_> = written.filter_map(range).collect();
        ranges.sort_unstable();
        let mut reserved: Vec<(i64, i64)> = Vec::new();
        for (first, last) in ranges {
            let next = reserved.last().map_or(start, |(_, last)| last + 1);
            if last >= next {
                reserved.push((first.max(next), last));
            }
        }
        Self { start, reserved }
    }

    /// The place of a pod among the others, from 0: what a partition is compared with. `None` for an ordinal that is left out.
    #[must_use]
    pub fn place(&self, ordinal: i64) -> Option<i64> {
        if ordinal < self.start {
            return None;
        }
        let mut place = ordinal - self.start;
        for (first, last) in self.reserved.iter().take_while(|(first, _)| *first <= ordinal) {
            if ordinal <= *last {
                return None;
            }
            place -= last - first + 1;
        }
        Some(place)
    }
}

/// A number, or a range with both its ends.
fn range(written: &Value) -> Option<(i64, i64)> {
    match written {
        Value::String(text) => {
            let (first, last) = text.split_once('-').unwrap_or((text, text));
            Some((read_count(first)?, read_count(last)?))
        }
        number => number.as_i64().filter(|n| *n < i64::MAX).map(|n| (n, n)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn places(spec: &Value, ordinals: &[i64]) -> Vec<Option<i64>> {
        let read = Ordinals::read(&json!({ "spec": spec }));
        ordinals.iter().map(|ordinal| read.place(*ordinal)).collect()
    }

    #[test]
    fn a_place_is_what_is_left_of_an_ordinal() {
        assert_eq!(places(&json!({}), &[0, 4]), [Some(0), Some(4)]);
        let start = json!({"ordinals": {"start": 10}});
        assert_eq!(places(&start, &[9, 10, 14]), [None, Some(0), Some(4)]);
        let gaps = json!({"reserveOrdinals": [3, 1, 1]});
        assert_eq!(
            places(&gaps, &[0, 1, 2, 3, 4, 6]),
            [Some(0), None, Some(1), None, Some(2), Some(4)]
        );
        let both = json!({"ordinals": {"start": 10}, "reserveOrdinals": [2, 11]});
        assert_eq!(places(&both, &[10, 11, 12]), [Some(0), None, Some(1)]);
        let ranges = json!({"reserveOrdinals": ["3-5", 1, "2", "4-6", "9-8"]});
        assert_eq!(
            places(&ranges, &[0, 1, 2, 3, 6, 7, 8]),
            [Some(0), None, None, None, None, Some(1), Some(2)]
        );
        let odd = json!({"ordinals": "ten", "reserveOrdinals": ["one-two", null, "-3"]});
        assert_eq!(places(&odd, &[2, 3]), [Some(2), Some(3)]);
    }
}
