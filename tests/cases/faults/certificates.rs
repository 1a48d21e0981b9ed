//! Certificates of the webhook: renewed, rotated, reset.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::Duration;

use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration,
};
use k8s_openapi::api::core::v1::Secret;
use kruise_rollout::names;
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use serde_json::{Value, json};
use support::{Entry, Identity, Installation, Mark, eventually};

use super::callers::{Calls, certificates, handshake, trusted};
use crate::ground::{Ground, at_work};
use crate::kinds::OwnKind;
use crate::outage::wait_failure_policy;
use crate::scene::{SOON, Scene, walk_steps};

/// What a reset may last.
const REPAIRED: Duration = Duration::from_secs(5);

/// A mounted Secret with a certificate of somebody else's authority: the files are links that are swapped together.
struct Mount {
    root: PathBuf,
    issuer: Issuer<'static, KeyPair>,
    authority: String,
    version: u32,
}

impl Mount {
    fn new() -> Self {
        let root = support::process::scratch("tls").unwrap();
        for file in ["tls.crt", "tls.key", "ca.crt"] {
            symlink(Path::new("..data").join(file), root.join(file)).unwrap();
        }
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority = params.self_signed(&key).unwrap().pem();
        Self {
            root,
            issuer: Issuer::new(params, key),
            authority,
            version: 0,
        }
    }

    fn path(&self) -> &str {
        self.root.to_str().unwrap()
    }

    /// Puts a new certificate; a name that only this one has.
    fn renew(&mut self) -> String {
        let key = KeyPair::generate().unwrap();
        let name = format!("number-{}.example", self.version);
        let names = vec!["127.0.0.1".to_owned(), name.clone()];
        let params = CertificateParams::new(names).unwrap();
        let leaf = params.signed_by(&key, &self.issuer).unwrap().pem();
        self.put(&leaf, &key.serialize_pem());
        name
    }

    fn put(&mut self, certificate: &str, key: &str) {
        self.version += 1;
        let folder = self.root.join(format!("..{}", self.version));
        fs::create_dir(&folder).unwrap();
        for (file, text) in [
            ("tls.crt", certificate),
            ("tls.key", key),
            ("ca.crt", &self.authority),
        ] {
            fs::write(folder.join(file), text).unwrap();
        }
        symlink(&folder, self.root.join("..new")).unwrap();
        fs::rename(self.root.join("..new"), self.root.join("..data")).unwrap();
    }
}

#[tokio::test]
async fn r54_a_certificate_renewed_on_disk_is_picked_up() {
    let installation = Ground::without_rollouts().await;
    let mut mount = Mount::new();
    let controller = installation
        .replica(None, &["--leader-elect=false", "--tls-dir", mount.path()])
        .unwrap();
    eventually(SOON, "what is missing is said", async || {
        match controller.ready().await {
            Err(answer) if answer.contains("certificate") => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    let first = mount.renew();
    at_work(&installation, &controller).await;
    let scene = Scene::new(&installation, "certs-disk").await;
    scene.set(Some(0), &walk_steps()).await;
    assert_eq!(
        trusted(&scene.admin).await.unwrap().trim(),
        mount.authority.trim()
    );
    let mut calls = Calls::of_the_api_server(&scene);
    let mut connections = Calls::by_new_connections(&scene, controller.webhook);
    let authority = mount.authority.clone();
    let shown = async |name: &str| handshake(controller.webhook, &authority, Some(name)).await;
    shown(&first).await.unwrap();

    let second = mount.renew();
    eventually(SOON, "the new certificate is served", async || {
        shown(&second).await
    })
    .await;
    shown(&first).await.unwrap_err();
    called(&mut [&mut calls, &mut connections]).await;

    mount.put("nonsense", "nonsense");
    let source = async |good: i64| {
        eventually(SOON, "what is on disk is judged", async || {
            let found = controller
                .metric("kruise_rollout_certificate_source_good")
                .await?;
            if found == good {
                Ok(())
            } else {
                Err(found.to_string())
            }
        })
        .await;
    };
    source(0).await;
    let log = fs::read_to_string(controller.process.log()).unwrap();
    assert_eq!(
        log.matches("cannot be used; the one before stays").count(),
        2,
        "{log}"
    );
    controller.ready().await.unwrap();
    shown(&second).await.unwrap();
    called(&mut [&mut calls, &mut connections]).await;
    let third = mount.renew();
    source(1).await;
    shown(&third).await.unwrap();
    called(&mut [&mut calls, &mut connections]).await;
    assert!(controller.process.is_running());
}

/// Each of them has been called since the last time, and none has failed.
async fn called(callers: &mut [&mut Calls]) {
    for calls in callers {
        eventually(SOON, "a call is made", async || match calls.made() {
            0 => Err("none"),
            _ => Ok(()),
        })
        .await;
    }
}

/// Two replicas, one of them called. At each moment both show certificates that are trusted by what the configurations said before.
#[tokio::test]
async fn r55_a_rotated_authority_is_trusted_before_it_is_used() {
    let installation = Ground::without_rollouts().await;
    // One that a case before has left would live for a year.
    let admin = installation
        .control_plane()
        .client(Identity::Admin)
        .await
        .unwrap();
    let secrets: Api<Secret> = Api::namespaced(admin, names::DEFAULT_NAMESPACE);
    let deleted = secrets
        .delete_collection(&DeleteParams::default(), &ListParams::default())
        .await;
    deleted.unwrap();
    let life = "--certificate-life=6";
    let controller = installation.replica(None, &[life]).unwrap();
    let other = installation.replica(Some(controller.webhook), &[life]).unwrap();
    at_work(&installation, &controller).await;
    other.wait_ready().await;
    let scene = Scene::new(&installation, "certs-rotate").await;
    scene.set(Some(0), &walk_steps()).await;
    let mut calls = Calls::of_the_api_server(&scene);
    let mut connections =
        [controller.webhook, other.webhook].map(|port| Calls::by_new_connections(&scene, port));

    let before = certificates(&trusted(&scene.admin).await.unwrap());
    // An authority lives four times as long as what it signs, and is followed some time before its end.
    let after = eventually(SOON * 2, "old and new authority are trusted", async || {
        let after = certificates(&trusted(&scene.admin).await?);
        match after.as_slice() {
            [new, old] if *old == before[0] => Ok(new.clone()),
            _ => Err(format!("{} authorities", after.len())),
        }
    })
    .await;
    // Somebody who knows nothing but the new authority.
    for port in [controller.webhook, other.webhook] {
        eventually(SOON, "the new authority's certificate is served", async || {
            handshake(port, &after, None).await
        })
        .await;
    }
    let [one, two] = &mut connections;
    called(&mut [&mut calls, one, two]).await;
}

/// The two configurations, and what becomes of them.
struct Registered<'a> {
    installation: &'a Installation<'static>,
    mutating: Api<DynamicObject>,
    validating: Api<DynamicObject>,
}

impl<'a> Registered<'a> {
    fn new(installation: &'a Installation<'static>, scene: &Scene<'_>) -> Self {
        let api = |resource: ApiResource| Api::all_with(scene.admin.clone(), &resource);
        Self {
            installation,
            mutating: api(ApiResource::erase::<MutatingWebhookConfiguration>(&())),
            validating: api(ApiResource::erase::<ValidatingWebhookConfiguration>(&())),
        }
    }

    async fn bundles(api: &Api<DynamicObject>) -> Vec<Value> {
        let found = api.get(names::WEBHOOK_CONFIGURATION).await.unwrap();
        let entries = found.data["webhooks"].as_array().cloned().unwrap_or_default();
        let bundle = |entry: Value| entry["clientConfig"]["caBundle"].clone();
        entries.into_iter().map(bundle).collect()
    }

    /// Waits until each entry has this bundle.
    async fn repaired(api: &Api<DynamicObject>, bundle: &Value) {
        eventually(REPAIRED, "the caBundle is back", async || {
            let found = Self::bundles(api).await;
            if found.iter().all(|found| found == bundle) {
                Ok(())
            } else {
                Err(format!("{found:?}"))
            }
        })
        .await;
    }

    fn mark(&self) -> Mark {
        self.installation.control_plane().audit().mark()
    }

    /// The controller's writes of this kind of configuration since a mark.
    fn writes(&self, mark: Mark, resource: &str) -> Vec<Entry> {
        let entries = self.installation.control_plane().audit().since(mark);
        let ours = |entry: &Entry| {
            entry.is_write() && entry.user == Identity::Controller.user() && entry.resource == resource
        };
        entries.into_iter().filter(ours).collect()
    }

    /// Waits until the controller has written so often since a mark.
    async fn wait_writes(&self, mark: Mark, resource: &str, count: usize) -> Vec<Entry> {
        eventually(SOON, "the write is in the audit log", async || {
            let writes = self.writes(mark, resource);
            if writes.len() == count {
                Ok(writes)
            } else {
                Err(format!("{writes:#?}"))
            }
        })
        .await
    }

    async fn patch(api: &Api<DynamicObject>, manager: &str, patch: Value) {
        let params = PatchParams {
            field_manager: Some(manager.to_owned()),
            ..PatchParams::default()
        };
        let patch: Patch<()> = Patch::Json(serde_json::from_value(patch).unwrap());
        api.patch(names::WEBHOOK_CONFIGURATION, &params, &patch)
            .await
            .unwrap();
    }

    async fn annotate(api: &Api<DynamicObject>, annotations: Value) {
        let patch = Patch::Merge(json!({"metadata": {"annotations": annotations}}));
        api.patch(names::WEBHOOK_CONFIGURATION, &PatchParams::default(), &patch)
            .await
            .unwrap();
    }
}

const MUTATING: &str = "mutatingwebhookconfigurations";
const BUNDLE: &str = "/webhooks/0/clientConfig/caBundle";

#[tokio::test]
async fn r56_a_reset_bundle_is_put_right_with_one_write() {
    let installation = Ground::without_rollouts().await;
    let controller = installation.replica(None, &["--leader-elect=false"]).unwrap();
    at_work(&installation, &controller).await;
    let manifests = std::process::Command::new(&installation.product().controller)
        .arg("manifests")
        .output()
        .unwrap();
    let manifests = String::from_utf8(manifests.stdout).unwrap();
    assert!(!manifests.contains("caBundle") && !manifests.contains("kind: MutatingWebhookConfiguration"));

    let scene = Scene::new(&installation, "certs-reset").await;
    scene.set(Some(0), &walk_steps()).await;
    let registered = Registered::new(&installation, &scene);
    let api = &registered.mutating;
    eventually(
        SOON,
        "kinds of earlier cases are gone",
        async || match Registered::bundles(api).await.len() {
            1 => Ok(()),
            entries => Err(entries),
        },
    )
    .await;
    wait_failure_policy(&scene.admin, "Ignore").await;
    let whole = Registered::bundles(api).await[0].clone();
    assert!(whole.as_str().is_some_and(|bundle| bundle.len() > 100));

    let placeholder = json!([{"op": "replace", "path": BUNDLE, "value": "Cg=="}]);
    let mut mark = registered.mark();
    Registered::patch(api, "helm", placeholder.clone()).await;
    Registered::repaired(api, &whole).await;
    registered.wait_writes(mark, MUTATING, 1).await;
    // Again by another tool, and a write of others that needs no answer.
    let settled = registered.mark();
    Registered::patch(api, "argocd", json!([{"op": "remove", "path": BUNDLE}])).await;
    Registered::repaired(api, &whole).await;
    registered.wait_writes(settled, MUTATING, 1).await;
    Registered::annotate(api, json!({"example.io/note": "x"})).await;

    // One that applies its own entry over ours, by force.
    let mut theirs = serde_json::to_value(api.get(names::WEBHOOK_CONFIGURATION).await.unwrap()).unwrap();
    theirs["metadata"] = json!({"name": names::WEBHOOK_CONFIGURATION});
    theirs["webhooks"][0]["clientConfig"]["caBundle"] = json!("Cg==");
    let params = PatchParams::apply("flux").force();
    api.patch(names::WEBHOOK_CONFIGURATION, &params, &Patch::Apply(&theirs))
        .await
        .unwrap();
    Registered::repaired(api, &whole).await;
    registered.wait_writes(mark, MUTATING, 3).await;

    // Left to cert-manager: not written, whatever it is, and not even in entries of new kinds.
    let injected = json!({"cert-manager.io/inject-ca-from": "kruise-rollout/webhook"});
    Registered::annotate(api, injected).await;
    mark = registered.mark();
    Registered::patch(api, "cainjector", placeholder).await;
    Registered::patch(
        &registered.validating,
        "helm",
        json!([{"op": "remove", "path": BUNDLE}]),
    )
    .await;
    Registered::repaired(&registered.validating, &whole).await;
    let kind = OwnKind::new("InjectedApp");
    kind.enable(&installation).await;
    kind.define(&installation, &[]).await;
    let other = Scene::of_kind(&installation, "certs-inject", kind.resource.clone()).await;
    other.create_rollout(&walk_steps()).await;
    let writes = registered.wait_writes(mark, MUTATING, 1).await;
    // What is there is left as it is, and the new entry waits for its own.
    let operations = writes[0].request.as_array().unwrap();
    let entries = operations
        .iter()
        .find(|operation| operation["path"] == "/webhooks");
    let written = entries.unwrap()["value"].as_array().unwrap().clone();
    let bundles: Vec<_> = written
        .iter()
        .map(|entry| &entry["clientConfig"]["caBundle"])
        .collect();
    assert_eq!(bundles, [&Value::Null, &json!("Cg==")], "{written:#?}");

    Registered::annotate(api, json!({"cert-manager.io/inject-ca-from": null})).await;
    Registered::repaired(api, &whole).await;
    // Nothing of all this has left a writer that answers itself.
    registered.wait_writes(mark, MUTATING, 2).await;
}
