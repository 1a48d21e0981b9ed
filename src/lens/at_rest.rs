//! JSON that waits.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// A JSON value as text. Stores hold many small objects and look into few of them: as a tree, each of its maps takes more than half a
/// KiB, whatever is in it. The members of maps are in order, so that equal values are equal here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AtRest(Box<str>);

impl AtRest {
    /// Lays a value to rest. One that is no JSON, such as a map with keys that are no texts, is `null`.
    #[must_use]
    pub fn of(value: &impl Serialize) -> Self {
        Self(
            serde_json::to_string(value)
                .unwrap_or_else(|_| "null".to_owned())
                .into(),
        )
    }

    /// The value; `None` if it is none of that type.
    #[must_use]
    pub fn read<T: DeserializeOwned>(&self) -> Option<T> {
        serde_json::from_str(&self.0).ok()
    }

    /// The tree.
    #[must_use]
    pub fn value(&self) -> Value {
        self.read().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    proptest! {
        #[test]
        fn what_comes_out_is_what_went_in(text: String, number: i64, flag: bool) {
            let value = json!({"a": {text.clone(): [number, flag, null]}, "b": text});
            prop_assert_eq!(AtRest::of(&value).value(), value);
        }
    }
}
