use std::marker::PhantomData;

use serde_json::Value;

/// A field that is there, but is not what it should be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path} should be {expected}, found {found}")]
pub struct FieldError {
    /// Dotted path of the field, as people write it.
    pub path: String,
    /// What the field should be.
    pub expected: &'static str,
    /// What is there instead, as compact JSON, cut to 60 characters.
    pub found: String,
}

/// A type that one JSON value can be read as.
pub trait Scalar: Sized {
    /// What a reader of an error message should have written.
    const EXPECTED: &'static str;
    /// Reads the value, or says that it is of another type.
    fn read(value: &Value) -> Option<Self>;
}

impl Scalar for i64 {
    const EXPECTED: &'static str = "an integer";
    fn read(value: &Value) -> Option<Self> {
        value.as_i64()
    }
}

impl Scalar for u32 {
    const EXPECTED: &'static str = "an integer from 0 to 2147483647";
    fn read(value: &Value) -> Option<Self> {
        value
            .as_u64()
            .filter(|n| *n <= i32::MAX as u64)
            .and_then(|n| u32::try_from(n).ok())
    }
}

impl Scalar for bool {
    const EXPECTED: &'static str = "true or false";
    fn read(value: &Value) -> Option<Self> {
        value.as_bool()
    }
}

impl Scalar for String {
    const EXPECTED: &'static str = "a string";
    fn read(value: &Value) -> Option<Self> {
        value.as_str().map(str::to_owned)
    }
}

/// A path into an object, with the type that should stand there.
#[derive(Debug)]
pub struct Field<T> {
    path: &'static [&'static str],
    kind: PhantomData<fn() -> T>,
}

impl<T: Scalar> Field<T> {
    /// The field at `path`, from the root of the object.
    #[must_use]
    pub const fn at(path: &'static [&'static str]) -> Self {
        Self {
            path,
            kind: PhantomData,
        }
    }

    /// The member names from the root.
    #[must_use]
    pub const fn path(&self) -> &'static [&'static str] {
        self.path
    }

    /// Reads the field. Absent (also below an absent or null parent) and null are `None`.
    ///
    /// # Errors
    /// A value of another type, or a parent that is not an object.
    pub fn get(&self, root: &Value) -> Result<Option<T>, FieldError> {
        let mut at = root;
        for (depth, name) in self.path.iter().enumerate() {
            match at {
                Value::Null => return Ok(None),
                Value::Object(members) => match members.get(*name) {
                    None => return Ok(None),
                    Some(next) => at = next,
                },
                other => return Err(malformed(&self.path[..depth], "an object", other)),
            }
        }
        if at.is_null() {
            return Ok(None);
        }
        T::read(at)
            .map(Some)
            .ok_or_else(|| malformed(self.path, T::EXPECTED, at))
    }

    /// Reads the field, with everything unreadable as absent. For reports only, never for decisions.
    #[must_use]
    pub fn peek(&self, root: &Value) -> Option<T> {
        self.get(root).ok().flatten()
    }
}

fn malformed(path: &[&str], expected: &'static str, found: &Value) -> FieldError {
    let mut text = found.to_string();
    if let Some((cut, _)) = text.char_indices().nth(60) {
        text.truncate(cut);
        text.push('…');
    }
    FieldError {
        path: path.join("."),
        expected,
        found: text,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const PARTITION: Field<i64> = Field::at(&["spec", "updateStrategy", "rollingUpdate", "partition"]);

    #[test]
    fn absent_malformed_and_zero_are_three_things() {
        assert_eq!(PARTITION.get(&json!({})), Ok(None));
        assert_eq!(
            PARTITION.get(&json!({"spec": {"updateStrategy": null}})),
            Ok(None)
        );
        assert_eq!(
            PARTITION.get(&json!({"spec": {"updateStrategy": {"rollingUpdate": {"partition": null}}}})),
            Ok(None)
        );
        assert_eq!(
            PARTITION.get(&json!({"spec": {"updateStrategy": {"rollingUpdate": {"partition": 0}}}})),
            Ok(Some(0))
        );
        let error = PARTITION
            .get(&json!({"spec": {"updateStrategy": {"rollingUpdate": {"partition": "30%"}}}}))
            .unwrap_err();
        assert_eq!(
            error.to_string(),
            "spec.updateStrategy.rollingUpdate.partition should be an integer, found \"30%\""
        );
        let error = PARTITION
            .get(&json!({"spec": {"updateStrategy": "RollingUpdate"}}))
            .unwrap_err();
        assert_eq!(
            error.to_string(),
            "spec.updateStrategy should be an object, found \"RollingUpdate\""
        );
    }

    #[test]
    fn counts_have_bounds() {
        const REPLICAS: Field<u32> = Field::at(&["spec", "replicas"]);
        assert_eq!(
            REPLICAS.get(&json!({"spec": {"replicas": 2147483647}})),
            Ok(Some(2_147_483_647))
        );
        assert!(REPLICAS.get(&json!({"spec": {"replicas": -1}})).is_err());
        assert!(
            REPLICAS
                .get(&json!({"spec": {"replicas": 2147483648_i64}}))
                .is_err()
        );
        assert!(REPLICAS.get(&json!({"spec": {"replicas": 1.5}})).is_err());
    }
}
