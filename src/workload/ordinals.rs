//! Which ordinals the pods of a workload have. A partition counts pods, not ordinals.

use std::collections::BTreeSet;

use serde_json::Value;

/// The ordinals that a workload leaves out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ordinals {
    start: i64,
    reserved: BTreeSet<i64>,
}

impl Ordinals {
    /// Reads `spec.ordinals.start` of StatefulSet and `spec.reserveOrdinals` of Advanced StatefulSet. What is absent, or means
    /// something else to a custom kind, leaves nothing out.
    #[must_use]
    pub(super) fn read(workload: &Value) -> Self {
        let spec = &workload["spec"];
        let start = spec["ordinals"]["start"].as_i64().unwrap_or_default().max(0);
        let reserved = spec["reserveOrdinals"].as_array().into_iter().flatten();
        Self {
            start,
            reserved: reserved
                .filter_map(Value::as_i64)
                .filter(|ordinal| *ordinal >= start)
                .collect(),
        }
    }

    /// The place of a pod among the others, from 0: what a partition is compared with. `None` for an ordinal that is left out.
    #[must_use]
    pub fn place(&self, ordinal: i64) -> Option<i64> {
        if ordinal < self.start || self.reserved.contains(&ordinal) {
            return None;
        }
        let before = i64::try_from(self.reserved.range(..ordinal).count()).unwrap_or(i64::MAX);
        Some(ordinal - self.start - before)
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
        let odd = json!({"ordinals": "ten", "reserveOrdinals": ["1-2", null]});
        assert_eq!(places(&odd, &[2]), [Some(2)]);
    }
}
