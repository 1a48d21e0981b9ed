use json_patch::jsonptr::PointerBuf;
use json_patch::{AddOperation, Patch, PatchOperation, RemoveOperation, TestOperation};
use serde_json::{Value, json};

/// The JSON pointer of a path of member names.
#[must_use]
pub fn pointer<'a>(path: impl IntoIterator<Item = &'a str>) -> PointerBuf {
    PointerBuf::from_tokens(path)
}

/// Builds a JSON patch against an object that was read.
///
/// Writes create the parents that the object lacks, and removing what is not there is left out, so that the patch applies to
/// exactly the object it was built from. The builder keeps a copy of the members it touches, so later steps see earlier ones.
#[derive(Debug)]
pub struct PatchBuilder {
    object: Value,
    operations: Vec<PatchOperation>,
}

impl PatchBuilder {
    /// A patch for `object`; only the parts that will be written need to be in it.
    #[must_use]
    pub const fn new(object: Value) -> Self {
        Self {
            object,
            operations: Vec::new(),
        }
    }

    /// Adds a test: the patch fails as a whole (422) when the server's object differs here.
    #[must_use]
    pub fn test<'a>(mut self, path: impl IntoIterator<Item = &'a str>, value: Value) -> Self {
        self.operations.push(PatchOperation::Test(TestOperation {
            path: pointer(path),
            value,
        }));
        self
    }

    /// Sets a member, creating absent or null parents. Writing what is already there adds nothing.
    #[must_use]
    pub fn set(mut self, path: &[&str], value: Value) -> Self {
        if lookup(&self.object, path) == Some(&value) {
            return self;
        }
        let present = (0..path.len())
            .rev()
            .find(|depth| lookup(&self.object, &path[..*depth]).is_some_and(Value::is_object))
            .unwrap_or(0);
        let nested = path[present + 1..]
            .iter()
            .rev()
            .fold(value, |inner, name| json!({ *name: inner }));
        store(&mut self.object, &path[..=present], Some(nested.clone()));
        self.operations.push(PatchOperation::Add(AddOperation {
            path: pointer(path[..=present].iter().copied()),
            value: nested,
        }));
        self
    }

    /// Removes a member if it is there.
    #[must_use]
    pub fn remove(mut self, path: &[&str]) -> Self {
        if lookup(&self.object, path).is_some() {
            store(&mut self.object, path, None);
            self.operations.push(PatchOperation::Remove(RemoveOperation {
                path: pointer(path.iter().copied()),
            }));
        }
        self
    }

    /// Removes a member, and then each parent below `keep` levels that became empty by it.
    #[must_use]
    pub fn prune(self, path: &[&str], keep: usize) -> Self {
        let mut patch = self.remove(path);
        for depth in (keep + 1..path.len()).rev() {
            let parent = &path[..depth];
            match lookup(&patch.object, parent) {
                Some(Value::Object(members)) if members.is_empty() => patch = patch.remove(parent),
                _ => break,
            }
        }
        patch
    }

    /// Whether the patch changes nothing; tests alone do not count.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.operations
            .iter()
            .all(|operation| matches!(operation, PatchOperation::Test(_)))
    }

    /// The object as it will be after the patch.
    #[must_use]
    pub const fn object(&self) -> &Value {
        &self.object
    }

    /// The patch.
    #[must_use]
    pub fn build(self) -> Patch {
        Patch(self.operations)
    }
}

fn lookup<'a>(root: &'a Value, path: &[&str]) -> Option<&'a Value> {
    path.iter().try_fold(root, |at, name| at.as_object()?.get(*name))
}

fn store(root: &mut Value, path: &[&str], value: Option<Value>) {
    let Some((last, parents)) = path.split_last() else {
        return;
    };
    let parent = parents
        .iter()
        .try_fold(root, |at, name| at.as_object_mut()?.get_mut(*name));
    if let Some(members) = parent.and_then(Value::as_object_mut) {
        match value {
            Some(value) => members.insert((*last).to_owned(), value),
            None => members.remove(*last),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARTITION: [&str; 4] = ["spec", "updateStrategy", "rollingUpdate", "partition"];

    fn applied(object: &Value, patch: Patch) -> Value {
        let mut result = object.clone();
        json_patch::patch(&mut result, &patch).unwrap();
        result
    }

    #[test]
    fn set_creates_the_parents_that_are_missing() {
        for object in [
            json!({"spec": {}}),
            json!({"spec": {"updateStrategy": null}}),
            json!({"spec": {"updateStrategy": {"type": "RollingUpdate"}}}),
            json!({"spec": {"updateStrategy": {"rollingUpdate": {"partition": 3}}}}),
        ] {
            let patch = PatchBuilder::new(object.clone())
                .set(&PARTITION, json!(4))
                .build();
            let result = applied(&object, patch);
            assert_eq!(
                result["spec"]["updateStrategy"]["rollingUpdate"]["partition"], 4,
                "{object}"
            );
        }
    }

    #[test]
    fn two_writes_below_the_same_new_parent_agree() {
        let object = json!({"metadata": {}});
        let patch = PatchBuilder::new(object.clone())
            .set(&["metadata", "annotations", "a/b"], json!("1"))
            .set(&["metadata", "annotations", "c~d"], json!("2"))
            .build();
        assert_eq!(
            applied(&object, patch),
            json!({"metadata": {"annotations": {"a/b": "1", "c~d": "2"}}})
        );
    }

    #[test]
    fn prune_removes_what_became_empty_and_nothing_else() {
        let object = json!({"spec": {"updateStrategy": {"rollingUpdate": {"partition": 4}}}});
        let patch = PatchBuilder::new(object.clone()).prune(&PARTITION, 1).build();
        assert_eq!(applied(&object, patch), json!({"spec": {}}));
        let object = json!({"spec": {"updateStrategy": {"type": "", "rollingUpdate": {"partition": 4}}}});
        let patch = PatchBuilder::new(object.clone()).prune(&PARTITION, 1).build();
        assert_eq!(
            applied(&object, patch),
            json!({"spec": {"updateStrategy": {"type": ""}}})
        );
    }

    #[test]
    fn nothing_to_do_is_an_empty_patch() {
        let object = json!({"spec": {"updateStrategy": {"rollingUpdate": {"partition": 4}}}});
        let patch = PatchBuilder::new(object)
            .test(["metadata", "uid"], json!("u"))
            .set(&PARTITION, json!(4))
            .remove(&["metadata", "annotations", "x"]);
        assert!(patch.is_empty());
    }
}
