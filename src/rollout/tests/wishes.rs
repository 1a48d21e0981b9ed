//! What people ask for where the hold is: a partition or, of a kind that is held by fields, how its pods are replaced.

use serde_json::{Map, Value, json};

use super::world::{World, nested};
use crate::lens::Scalar as _;
use crate::workload::{Fixed, HeldField, Means, Original, Partition, RevisionKind, View};

/// What is asked for in the fields that hold, by their paths.
pub(super) type Fields = Map<String, Value>;

fn at<'a>(object: &'a Value, field: &HeldField) -> Option<&'a Value> {
    let found = field.path.iter().try_fold(object, |at, name| at.get(*name));
    found.filter(|value| !value.is_null())
}

fn fields_of(fields: &[HeldField], object: &Value) -> Fields {
    let found = fields
        .iter()
        .filter_map(|field| Some((field.path.join("."), at(object, field)?.clone())));
    found.collect()
}

/// How the pods of a Deployment are replaced, from the cautious to the fast.
fn deployment_strategy(number: i64) -> Value {
    let rolling = |surge: Value, unavailable: Value| json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}});
    match number {
        0 => rolling(json!(1), json!(0)),
        1 => rolling(json!(0), json!(1)),
        2 => rolling(json!(1), json!(1)),
        3 => rolling(json!(2), json!(0)),
        4 => rolling(json!("50%"), json!("50%")),
        5 => rolling(json!(0), json!(2)),
        _ => json!({"type": "Recreate"}),
    }
}

impl World {
    /// The members of `spec` where people ask for it, as a merge patch: this partition or, of a kind that has none, the strategy of
    /// this number.
    pub(super) fn wish(&self, number: Option<i64>) -> Value {
        match (self.adapter.paths().revisions, number) {
            (None, _) => nested(self.adapter.partition_path().unwrap(), json!(number)),
            (Some(RevisionKind::ReplicaSet), None) => json!({"spec": {"strategy": null}}),
            (Some(RevisionKind::ReplicaSet), Some(number)) => {
                let mut strategy = deployment_strategy(number);
                if strategy.get("rollingUpdate").is_none() {
                    strategy["rollingUpdate"] = json!(null);
                }
                json!({"spec": {"strategy": strategy}})
            }
            (Some(RevisionKind::ControllerRevision), None) => json!({"spec": {"updateStrategy": null}}),
            (Some(RevisionKind::ControllerRevision), Some(number)) => {
                let unavailable = if number > 5 {
                    json!("50%")
                } else {
                    json!(number.max(1))
                };
                json!({"spec": {"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": unavailable}}}})
            }
        }
    }

    /// The same as a percentage.
    pub(super) fn wish_for_a_share(&self, percent: u32) -> Value {
        let share = |percent: u32| Partition::Percent(percent).to_string();
        match self.adapter.paths().revisions {
            None => nested(self.adapter.partition_path().unwrap(), json!(share(percent))),
            Some(RevisionKind::ReplicaSet) => json!({"spec": {"strategy": {"type": "RollingUpdate",
                "rollingUpdate": {"maxSurge": share(percent), "maxUnavailable": share(100 - percent)}}}}),
            Some(RevisionKind::ControllerRevision) => {
                json!({"spec": {"updateStrategy": {"type": "RollingUpdate",
                "rollingUpdate": {"maxUnavailable": share(percent.max(1))}}}})
            }
        }
    }

    /// A merge patch that takes the strategy out of `spec`.
    pub(super) fn no_strategy(&self) -> Value {
        match self.adapter.paths().revisions {
            Some(RevisionKind::ReplicaSet) => self.wish(None),
            _ => json!({"spec": {"updateStrategy": null}}),
        }
    }

    /// Whether an object has anything else than the present one where the hold is.
    pub(super) fn moves_the_hold(&self, new: &Value) -> bool {
        match &self.adapter.paths().means {
            Means::Partition(_) => self.adapter.view(new).unwrap().partition != self.view().partition,
            Means::Held(held) => fields_of(held.fields, new) != fields_of(held.fields, self.object()),
        }
    }

    /// Fills in what the API server fills in where people write nothing.
    pub(super) fn set_defaults(&self, object: &mut Value) {
        let (member, rolling) = match self.adapter.paths().revisions {
            None => return,
            Some(RevisionKind::ReplicaSet) => {
                ("strategy", json!({"maxSurge": "25%", "maxUnavailable": "25%"}))
            }
            Some(RevisionKind::ControllerRevision) => {
                ("updateStrategy", json!({"maxSurge": 0, "maxUnavailable": 1}))
            }
        };
        let strategy = &mut object["spec"][member];
        if strategy["type"].is_null() {
            strategy["type"] = json!("RollingUpdate");
        }
        if strategy["type"] == "RollingUpdate" && !strategy["rollingUpdate"].is_object() {
            strategy["rollingUpdate"] = rolling;
        }
        let strategy = strategy.as_object_mut().unwrap();
        strategy.retain(|_, value| !value.is_null());
    }

    /// People ask for fields, in an object as they write it.
    pub(super) fn sees_fields_asked_for(&mut self, old: &View, asked: &View, stored: &View) {
        let Means::Held(held) = &self.adapter.paths().means else {
            return;
        };
        let before = self.oracle.fields.clone();
        let (written, was) = (asked.skeleton.value(), old.skeleton.value());
        // Written as a whole, without our marks and without what we have set.
        let set = held.fields.iter().filter(|field| field.fixed == Fixed::True);
        let whole = asked.marks.hold.is_none()
            && set
                .into_iter()
                .any(|field| at(&written, field) != field.fixed.value().as_ref());
        let hold = asked.marks.hold.as_ref();
        if let Some(hold) = hold.filter(|hold| hold.is_echoed_by(asked.partition))
            && let Original::Fields(original) = &hold.original
        {
            // A state of ours: whoever writes it asks for what its marks say.
            self.oracle.fields = Some(original.clone());
        } else if self.oracle.fields.is_none() || stored.hold().is_none() || old.hold().is_none() || whole {
            self.oracle.fields = Some(fields_of(held.fields, &written));
        } else if let Some(wishes) = &mut self.oracle.fields {
            for field in held.fields {
                let wish = at(&written, field);
                if wish == at(&was, field) || wish == field.fixed.value().as_ref() {
                    continue;
                }
                match wish {
                    Some(wish) => wishes.insert(field.path.join("."), wish.clone()),
                    None => wishes.remove(&field.path.join(".")),
                };
            }
        }
        self.oracle.steady &= before == self.oracle.fields;
    }

    /// Whether the workload, which is not held any more, has what people asked for.
    pub(super) fn has_what_was_asked_for(&self) -> bool {
        match &self.adapter.paths().means {
            Means::Partition(_) => self.oracle.asked == Some(self.view().partition),
            Means::Held(held) => self.oracle.fields == Some(fields_of(held.fields, self.object())),
        }
    }

    /// How many pods more and less than it is to have the strategy of a Deployment allows, as Kubernetes reads it.
    pub(super) fn bounds(&self) -> (u32, u32) {
        let asked = self.oracle.fields.clone().unwrap_or_default();
        bounds_of(&asked, self.view().replicas)
    }
}

/// The same of these fields and replicas.
pub(super) fn bounds_of(asked: &Fields, replicas: u32) -> (u32, u32) {
    if asked
        .get("spec.strategy.type")
        .is_some_and(|kind| kind == "Recreate")
    {
        return (0, replicas);
    }
    let rolling = asked
        .get("spec.strategy.rollingUpdate")
        .cloned()
        .unwrap_or_default();
    rolling_bounds(&rolling, replicas)
}

/// What `rollingUpdate` of a Deployment with so many replicas allows.
pub(super) fn rolling_bounds(rolling: &Value, replicas: u32) -> (u32, u32) {
    let read = |name: &str, up: bool| match Partition::read(&rolling[name]) {
        Some(Partition::Count(count)) => u32::try_from(count).unwrap(),
        Some(Partition::Percent(percent)) if up => (percent * replicas).div_ceil(100),
        Some(Partition::Percent(percent)) => percent * replicas / 100,
        None => 0,
    };
    match (read("maxSurge", true), read("maxUnavailable", false)) {
        (0, 0) => (0, 1),
        (surge, unavailable) => (surge, unavailable.min(replicas)),
    }
}
