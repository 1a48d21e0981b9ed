//! JSON that waits.

use serde_json::Value;

/// A JSON value as text. Stores hold many small objects and look into few of them: as a tree, each of its maps takes more than half a
/// KiB, whatever is in it. The members of maps are in order, so that equal values are equal here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AtRest(Box<str>);

impl AtRest {
    /// The tree.
    #[must_use]
    pub fn value(&self) -> Value {
        // It was written from a tree.
        serde_json::from_str(&self.0).unwrap_or_default()
    }
}

impl From<&Value> for AtRest {
    fn from(value: &Value) -> Self {
        Self(value.to_string().into())
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
            prop_assert_eq!(AtRest::from(&value).value(), value);
        }
    }
}
