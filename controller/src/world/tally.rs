//! Counts that are kept while what they count comes and goes, so that nobody has to look through all of it.

use std::collections::BTreeMap;

/// How many there are of each; what there is none of is not in it.
pub(super) struct Tally<K>(BTreeMap<K, usize>);

impl<K> Default for Tally<K> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<K: Ord> Tally<K> {
    /// One more.
    pub(super) fn add(&mut self, key: K) {
        *self.0.entry(key).or_default() += 1;
    }

    /// One less.
    pub(super) fn remove(&mut self, key: &K) {
        if let Some(count) = self.0.get_mut(key) {
            *count -= 1;
            if *count == 0 {
                self.0.remove(key);
            }
        }
    }

    /// Whether there is one.
    pub(super) fn has(&self, key: &K) -> bool {
        self.0.contains_key(key)
    }

    /// What there is at least one of.
    pub(super) fn all(&self) -> impl Iterator<Item = &K> {
        self.0.keys()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_one_that_goes_takes_the_entry_along() {
        let mut tally = Tally::default();
        tally.add("a");
        tally.add("a");
        tally.add("b");
        tally.remove(&"a");
        assert!(tally.has(&"a") && tally.has(&"b"));
        tally.remove(&"a");
        tally.remove(&"c");
        assert!(!tally.has(&"a"));
        assert_eq!(tally.all().collect::<Vec<_>>(), [&"b"]);
    }
}
