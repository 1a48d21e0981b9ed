//! Sets that hold one thing as a rule.

use std::slice;

/// A set of few things, in order. There is one for each Rollout, and the node of a `BTreeSet` has room for eleven at once.
pub(super) struct Few<T>(Vec<T>);

impl<T> Default for Few<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T: Ord> Few<T> {
    /// Adds it; whether it is new.
    pub(super) fn insert(&mut self, item: T) -> bool {
        let Err(at) = self.0.binary_search(&item) else {
            return false;
        };
        self.0.reserve_exact(1);
        self.0.insert(at, item);
        true
    }

    /// Takes it out; whether it was there.
    pub(super) fn remove(&mut self, item: &T) -> bool {
        let found = self.0.binary_search(item);
        if let Ok(at) = found {
            self.0.remove(at);
        }
        found.is_ok()
    }

    pub(super) fn contains(&self, item: &T) -> bool {
        self.0.binary_search(item).is_ok()
    }

    pub(super) fn iter(&self) -> slice::Iter<'_, T> {
        self.0.iter()
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<'a, T: Ord> IntoIterator for &'a Few<T> {
    type Item = &'a T;
    type IntoIter = slice::Iter<'a, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_in_it_once_and_in_order() {
        let mut few = Few::default();
        assert!(few.is_empty());
        assert!(few.insert("b") && few.insert("a") && !few.insert("b"));
        assert_eq!((few.iter().collect::<Vec<_>>(), few.len()), (vec![&"a", &"b"], 2));
        assert!(few.remove(&"a") && !few.remove(&"a"));
        assert!(few.contains(&"b") && !few.contains(&"a"));
    }
}
