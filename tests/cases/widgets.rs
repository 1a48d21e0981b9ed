//! `widgets.example.io`, a custom kind without a schema whose operator is a script of the case: it does what an honest operator
//! does, but names and reports things as the case says.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use kube::api::{Api, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use support::{Identity, Installation, eventually};
use tokio::task::JoinSet;

use crate::kinds::OwnKind;
use crate::scene::{APP, SOON, Scene};

/// Pause between two turns of the operator.
const TURN: Duration = Duration::from_millis(40);

/// What the operator knows when it reports.
#[derive(Clone, Debug)]
pub struct Facts {
    pub generation: i64,
    pub replicas: usize,
    pub ready: usize,
    pub updated: usize,
    pub current: String,
    pub update: String,
}

impl Facts {
    /// The status of an honest operator.
    pub fn status(&self) -> Value {
        json!({"observedGeneration": self.generation, "replicas": self.replicas, "readyReplicas": self.ready,
            "updatedReplicas": self.updated, "currentRevision": self.current, "updateRevision": self.update})
    }
}

/// Makes a status of what the operator knows.
pub type Report = Box<dyn Fn(&Facts) -> Option<Value> + Send>;

/// How the operator names, reports and updates.
pub struct Script {
    /// Ordinals of its pods, in the order of their places.
    pub ordinals: Vec<u32>,
    /// Revision in the status of a version of the image.
    pub revision: Box<dyn Fn(&str) -> String + Send>,
    /// Revision label of pods of a version.
    pub label: Box<dyn Fn(&str) -> String + Send>,
    /// The status; `None` to leave it as it is.
    pub report: Report,
    /// The most pods that it updates.
    pub updates: usize,
}

impl Default for Script {
    fn default() -> Self {
        let name = |version: &str| format!("{APP}-{version}");
        Self {
            ordinals: (0..20).collect(),
            revision: Box::new(name),
            label: Box::new(name),
            report: Box::new(|facts| Some(facts.status())),
            updates: usize::MAX,
        }
    }
}

/// A namespace with a widget and its operator, which acts until this is dropped.
pub struct Widget<'a> {
    pub scene: Scene<'a>,
    script: Arc<Mutex<Script>>,
    _operator: JoinSet<()>,
}

impl<'a> Widget<'a> {
    /// The kind is served and enabled, the operator runs, and there is no widget yet.
    pub async fn new(installation: &Installation<'a>, prefix: &str, script: Script) -> Self {
        let kind = OwnKind::new("Widget");
        kind.enable(installation).await;
        installation
            .kubectl_apply(&definition(&kind).to_string())
            .await
            .unwrap();
        let admin = installation
            .control_plane()
            .client(Identity::Admin)
            .await
            .unwrap();
        let widgets: Api<DynamicObject> = Api::all_with(admin, &kind.resource);
        eventually(SOON, "the kind is served", async || {
            widgets.list(&ListParams::default()).await.map(drop)
        })
        .await;
        let scene = Scene::of_kind(installation, prefix, kind.resource).await;
        let script = Arc::new(Mutex::new(script));
        let mut operator = Operator {
            widgets: scene.apps(&scene.admin),
            pods: scene.all_pods(),
            script: script.clone(),
            templates: BTreeMap::new(),
            current: None,
        };
        let mut turns = JoinSet::new();
        turns.spawn(async move {
            loop {
                // What fails, such as a lost race, is done in the next turn.
                let _ = operator.turn().await;
                tokio::time::sleep(TURN).await;
            }
        });
        Self {
            scene,
            script,
            _operator: turns,
        }
    }

    /// Changes what the operator does from now on.
    pub fn rescript(&self, change: impl FnOnce(&mut Script)) {
        change(&mut self.script.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Widget of v1 with all pods ready, and its Rollout, guarded and healthy.
    pub async fn set(&self, steps: &Value) {
        self.scene.set(Some(0), steps).await;
    }
}

fn definition(kind: &OwnKind) -> Value {
    let resource = &kind.resource;
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{}.{}", resource.plural, resource.group)},
        "spec": {
            "group": resource.group, "scope": "Namespaced",
            "names": {"kind": resource.kind, "plural": resource.plural},
            "versions": [{"name": resource.version, "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}],
        },
    })
}

struct Operator {
    widgets: Api<DynamicObject>,
    pods: Api<Pod>,
    script: Arc<Mutex<Script>>,
    /// Templates by version.
    templates: BTreeMap<String, Value>,
    /// Version that held-back pods have.
    current: Option<String>,
}

/// A pod of the widget.
struct Made {
    version: String,
    ready: bool,
    leaves: bool,
}

/// What one turn does to a pod.
enum Deed {
    Create { ordinal: u32, version: String },
    Delete(String),
}

impl Operator {
    async fn turn(&mut self) -> Result<(), kube::Error> {
        let Some(widget) = self.widgets.get_opt(APP).await? else {
            return Ok(());
        };
        let made = self.made(&widget).await?;
        let (deeds, status) = self.decide(&widget, &made);
        for deed in deeds {
            match deed {
                Deed::Delete(name) => {
                    let params = DeleteParams::default().grace_period(0);
                    self.pods.delete(&name, &params).await.map(drop)?;
                }
                Deed::Create { ordinal, version } => {
                    let pod = self.pod(&widget, ordinal, &version);
                    self.pods.create(&PostParams::default(), &pod).await?;
                }
            }
        }
        if let Some(status) = status.filter(|status| Some(status) != widget.data.get("status")) {
            let patch: json_patch::Patch =
                serde_json::from_value(json!([{"op": "add", "path": "/status", "value": status}])).unwrap();
            let patch: Patch<()> = Patch::Json(patch);
            self.widgets
                .patch_status(APP, &PatchParams::default(), &patch)
                .await?;
        }
        Ok(())
    }

    /// The widget's pods by name, those of the script's ordinals or not.
    async fn made(&self, widget: &DynamicObject) -> Result<BTreeMap<String, Made>, kube::Error> {
        let list = self.pods.list(&ListParams::default()).await?;
        let owned = list.items.into_iter().filter(|pod| {
            pod.owner_references()
                .iter()
                .any(|owner| Some(&owner.uid) == widget.metadata.uid.as_ref())
        });
        let read = |pod: Pod| {
            let view = serde_json::to_value(&pod).unwrap();
            let conditions = view["status"]["conditions"]
                .as_array()
                .cloned()
                .unwrap_or_default();
            let made = Made {
                version: version_of(&view["spec"]),
                ready: conditions
                    .iter()
                    .any(|c| c["type"] == "Ready" && c["status"] == "True"),
                leaves: pod.metadata.deletion_timestamp.is_some(),
            };
            (pod.name_any(), made)
        };
        Ok(owned.map(read).collect())
    }

    fn decide(
        &mut self,
        widget: &DynamicObject,
        made: &BTreeMap<String, Made>,
    ) -> (Vec<Deed>, Option<Value>) {
        let script = self.script.lock().unwrap_or_else(PoisonError::into_inner);
        let spec = &widget.data["spec"];
        let count = |value: &Value, default: u64| usize::try_from(value.as_u64().unwrap_or(default)).unwrap();
        let replicas = count(&spec["replicas"], 1);
        let partition = count(&spec["updateStrategy"]["rollingUpdate"]["partition"], 0);
        let update = version_of(&spec["template"]["spec"]);
        self.templates.insert(update.clone(), spec["template"].clone());
        let current = self.current.get_or_insert_with(|| update.clone());
        let names: Vec<_> = script
            .ordinals
            .iter()
            .take(replicas)
            .map(|n| format!("{APP}-{n}"))
            .collect();
        let ours = || {
            names
                .iter()
                .filter_map(|name| made.get(name))
                .filter(|pod| !pod.leaves)
        };
        let updated = ours().filter(|pod| pod.version == update).count();
        let mut deeds = Vec::new();
        for (place, name) in names.iter().enumerate().rev() {
            match made.get(name) {
                None => deeds.push(Deed::Create {
                    ordinal: script.ordinals[place],
                    version: if place >= partition { &update } else { &*current }.clone(),
                }),
                Some(pod) if pod.leaves => {}
                Some(pod) if place >= partition && pod.version != update => {
                    // One at a time.
                    if deeds.is_empty() && updated < script.updates {
                        deeds.push(Deed::Delete(name.clone()));
                    }
                    break;
                }
                Some(pod) if !pod.ready => break,
                Some(_) => {}
            }
        }
        let whole = updated == replicas && ours().all(|pod| pod.ready);
        if whole {
            current.clone_from(&update);
        }
        let facts = Facts {
            generation: widget.metadata.generation.unwrap_or_default(),
            replicas: ours().count(),
            ready: ours().filter(|pod| pod.ready).count(),
            updated,
            current: (script.revision)(current),
            update: (script.revision)(&update),
        };
        (deeds, (script.report)(&facts))
    }

    fn pod(&self, widget: &DynamicObject, ordinal: u32, version: &str) -> Pod {
        let script = self.script.lock().unwrap_or_else(PoisonError::into_inner);
        let template = &self.templates[version];
        let mut labels = template["metadata"]["labels"].clone();
        labels["controller-revision-hash"] = json!((script.label)(version));
        serde_json::from_value(json!({
            "metadata": {"name": format!("{APP}-{ordinal}"), "labels": labels, "ownerReferences": [owner(widget)]},
            "spec": {"containers": [{"name": "app", "image": template["spec"]["containers"][0]["image"]}]},
        }))
        .unwrap()
    }
}

/// The reference from a pod to the widget that controls it.
pub fn owner(widget: &DynamicObject) -> Value {
    let types = widget.types.clone().unwrap_or_default();
    json!({"apiVersion": types.api_version, "kind": types.kind, "name": widget.name_any(),
        "uid": widget.metadata.uid, "controller": true})
}

fn version_of(spec: &Value) -> String {
    let image = spec["containers"][0]["image"].as_str().unwrap_or_default();
    image.rsplit(':').next().unwrap_or_default().to_owned()
}
