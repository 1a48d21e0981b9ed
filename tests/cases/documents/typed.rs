//! The blocks of the documents, typed as they stand there by somebody who has installed nothing yet.

use std::path::PathBuf;
use std::time::Duration;

use kruise_rollout::names;
use serde_json::{Value, json};
use support::process::scratch;
use support::{ControlPlane, Identity, Installation, Options, Tool, eventually};
use tokio::time::timeout;

use super::page::{Block, CONSOLE, Page, SHELL, YAML};
use crate::migration::switch::registration;
use crate::scene::SOON;
use crate::transcripts::{played, steady, typed};
use crate::uninstall::{assert_unmarked, registered, wait_nothing_registered};

/// What is in the blocks of the README that have the app and its Rollout.
const APP: &str = "kind: MyStatefulApp\nmetadata";
const ROLLOUT: &str = "kind: Rollout\nmetadata";

/// Somebody at a shell, an administrator, at the root of the repository.
struct Reader<'a> {
    control_plane: &'a ControlPlane,
    /// A folder with programs that not everybody has.
    tools: Option<PathBuf>,
}

impl<'a> Reader<'a> {
    /// One who has the usual programs.
    fn of(control_plane: &'a ControlPlane) -> Self {
        Self {
            control_plane,
            tools: None,
        }
    }

    /// What a line answers and prints.
    async fn tries(&self, line: &str) -> (i32, String) {
        let mut kubectl = self.control_plane.kubectl(Identity::Admin);
        if let Some(tools) = &self.tools {
            let path = kubectl.as_std().get_envs().find(|(name, _)| *name == "PATH");
            let mut path = path.and_then(|(_, value)| value).unwrap().to_owned();
            path.push(":");
            path.push(tools);
            kubectl.env("PATH", path).env("HOME", tools);
        }
        let typed = typed(&kubectl, line);
        timeout(Duration::from_secs(90), typed)
            .await
            .unwrap_or_else(|_| panic!("does not end: {line}"))
    }

    /// What lines print, each of which has to go well.
    async fn types(&self, lines: &str) -> String {
        let (code, said) = self.tries(&format!("set -e\n{lines}")).await;
        assert_eq!(code, 0, "{lines}\n{said}");
        said
    }

    async fn runs(&self, block: Block) -> String {
        assert_eq!(block.language, SHELL);
        self.types(&block.text).await
    }

    async fn applies(&self, block: Block) -> String {
        assert_eq!(block.language, YAML);
        self.types(&format!("kubectl apply -f - <<'END'\n{}END", block.text))
            .await
    }

    /// The answers are those that the block has.
    async fn finds(&self, block: Block) {
        assert_eq!(block.language, CONSOLE);
        let document = format!("```{CONSOLE}\n{}```\n", block.text);
        let fresh = played(&document, async |line| self.tries(line).await.1).await;
        assert_eq!(steady(&fresh), steady(&document), "{fresh}");
    }

    async fn waits(&self, object: &str, path: &str, value: &str) {
        self.types(&format!(
            "kubectl wait {object} --for=jsonpath='{path}'={value} --timeout=60s"
        ))
        .await;
    }

    async fn gets(&self, object: &str) -> Value {
        serde_json::from_str(&self.types(&format!("kubectl get {object} -o json")).await).unwrap()
    }

    /// Definition and operator of the kind that the documents speak of. The kind has to be enabled.
    async fn has_operator(&self, installation: &mut Installation<'_>) {
        installation.define(&[]).await.unwrap();
        self.types("kubectl wait --for=condition=Established crd/mystatefulapps.example.io --timeout=60s")
            .await;
        installation.start_operator(&[]).unwrap();
    }

    /// App and Rollout of the README, at rest.
    async fn has_app(&self, readme: &mut Page) {
        self.applies(readme.take(APP)).await;
        self.waits("mystatefulapp/my-app", "{.status.readyReplicas}", "5")
            .await;
        self.applies(readme.take(ROLLOUT)).await;
        self.waits("rollout/my-app-rollout", "{.status.phase}", "Healthy")
            .await;
    }

    async fn waits_paused(&self, step: i64) {
        let rollout = "rollout/my-app-rollout";
        self.waits(
            rollout,
            "{.status.canaryStatus.currentStepIndex}",
            &step.to_string(),
        )
        .await;
        self.waits(rollout, "{.status.currentStepState}", "StepPaused")
            .await;
    }
}

#[tokio::test]
async fn from_the_installation_to_its_end() {
    let control_plane = ControlPlane::start(Options::default()).await.unwrap();
    let reader = Reader::of(&control_plane);
    let mut installation = Installation::new(&control_plane).unwrap();

    let mut readme = Page::open("../README.md");
    reader.runs(readme.take("manifests --image")).await;
    reader.has_operator(&mut installation).await;
    reader.runs(readme.take("workload enable")).await;
    // Who warns depends on how long the kind is governed already; here it is the webhook.
    installation.set_flags(&["--admission=webhook"]);
    installation.start_controller().await.unwrap();
    reader.has_app(&mut readme).await;
    reader.finds(readme.take("kubectl patch mystatefulapp")).await;
    reader.waits_paused(1).await;
    reader.finds(readme.take("rollout status my-app-rollout")).await;
    readme.end();

    people(&reader).await;

    let mut concepts = Page::open("concepts.md");
    let jump = concepts.take("\"nextStepIndex\":3");
    // Step 3 would follow anyway.
    reader.types(&jump.text.replace(":3}", ":1}")).await;
    reader.waits_paused(1).await;
    reader.runs(jump).await;
    reader
        .waits("rollout/my-app-rollout", "{.status.phase}", "Healthy")
        .await;
    concepts.end();

    let mut gitops = Page::open("gitops.md");
    reader.runs(gitops.take("--for=condition=Ready")).await;
    reader.types("kubectl create namespace argocd").await;
    reader.applies(gitops.take("argocd-cm")).await;
    gitops.end();

    operations(&reader, &mut installation).await;
}

/// Who may do what, in mid-release.
async fn people(reader: &Reader<'_>) {
    let mut security = Page::open("security.md");
    let approve = "kubectl kruise rollout approve rollout/my-app-rollout --as=ann";
    assert_eq!(reader.tries(approve).await.0, 1);
    reader.runs(security.take("create rolebinding approvers")).await;
    eventually(SOON, "Ann may approve", async || {
        match reader.tries(approve).await {
            (0, _) => Ok(()),
            (_, said) => Err(said),
        }
    })
    .await;
    reader.waits_paused(2).await;

    let repair = security.take("--as-group");
    let alone = repair
        .text
        .replace("--as-group=rollouts.kruise.io:break-glass", "");
    assert_ne!(alone, repair.text);
    let (code, said) = reader.tries(&alone).await;
    assert_eq!(code, 1);
    assert!(
        said.contains("as a member of the group rollouts.kruise.io:break-glass"),
        "{said}"
    );
    reader
        .runs(security.take("create clusterrolebinding rollouts-repair"))
        .await;
    let may = ["users/ann", "groups/rollouts.kruise.io:break-glass"]
        .map(|whom| format!("kubectl auth can-i impersonate {whom} --as=ann"));
    assert_eq!(reader.tries(&may[1]).await.0, 1);
    reader.applies(security.take("name: rollouts-break-glass")).await;
    reader
        .types("kubectl create clusterrolebinding ann --clusterrole=rollouts-break-glass --user=ann")
        .await;
    for may in &may {
        eventually(SOON, may, async || match reader.tries(may).await {
            (0, _) => Ok(()),
            (_, said) => Err(said),
        })
        .await;
    }
    reader.runs(repair).await;
    // It is built again from the marks.
    reader.waits_paused(2).await;
    security.end();
}

/// The end of it, with a release that is under way.
async fn operations(reader: &Reader<'_>, installation: &mut Installation<'_>) {
    let mut operations = Page::open("operations.md");
    let patch = operations.take("KRUISE_ROLLOUT_TLS_DIR");
    reader
        .types(&format!(
            "kubectl -n kruise-rollout patch deployment kruise-rollout-controller --patch '{}'",
            patch.text
        ))
        .await;
    let deployment = reader
        .gets("deployment kruise-rollout-controller -n kruise-rollout")
        .await;
    let pod = &deployment["spec"]["template"]["spec"];
    assert_eq!(pod["containers"].as_array().unwrap().len(), 1, "{pod:#}");
    assert_eq!(
        pod["containers"][0]["volumeMounts"][0]["name"],
        pod["volumes"][0]["name"]
    );

    let image = json!({"spec": {"template": {"spec": {"containers": [{"name": "app", "image": "my-registry/my-app:v3"}]}}}});
    reader
        .types(&format!(
            "kubectl patch mystatefulapp my-app --type=merge -p '{image}'"
        ))
        .await;
    reader.waits_paused(1).await;
    installation.kill_controller();
    let told = reader.runs(operations.take("uninstall --dry-run")).await;
    assert!(told.contains("my-app: held, would be released"), "{told}");
    assert!(told.contains("my-app: held, is released"), "{told}");
    assert_unmarked(&reader.gets("mystatefulapp my-app").await);
    let admin = reader.control_plane.client(Identity::Admin).await.unwrap();
    assert_eq!(registered(&admin).await, [""; 0]);
    operations.end();
}

#[tokio::test]
async fn each_way_to_install() {
    let control_plane = ControlPlane::start(Options::default()).await.unwrap();
    let tools = scratch("tools").unwrap();
    std::os::unix::fs::symlink(Tool::Helm.program().unwrap(), tools.join("helm")).unwrap();
    let mut reader = Reader::of(&control_plane);
    reader.tools = Some(tools);
    let mut installation = Installation::new(&control_plane).unwrap();
    let mut page = Page::open("install.md");

    // By Helm, and after it by the manifests: what Helm leaves is no obstacle.
    reader.runs(page.take("helm install")).await;
    reader
        .gets("deployment kruise-rollout-controller -n kruise-rollout")
        .await;
    reader
        .types("helm uninstall kruise-rollout --namespace kruise-rollout")
        .await;
    reader.runs(page.take("controller:0.1.0 | kubectl apply")).await;
    reader.runs(page.take("controller:VERSION")).await;

    reader.has_operator(&mut installation).await;
    let role = page.take("kind: ClusterRole");
    let enable = page.take("workload enable");
    let commands = enable.commands();
    let [apply, print, remove] = commands.as_slice() else {
        panic!("{commands:?}")
    };
    reader.types(apply).await;
    // What it prints is what the page shows.
    let print = print.split(" #").next().unwrap();
    let printed = reader.types(&format!("{print} 2>/dev/null")).await;
    let printed: Value = serde_saphyr::from_str(printed.trim_start_matches("---\n")).unwrap();
    let shown: Value = serde_saphyr::from_str(&role.text).unwrap();
    assert_eq!(printed["rules"], shown["rules"]);
    reader.types(remove).await;
    reader.applies(role).await;

    installation.start_controller().await.unwrap();
    let mut readme = Page::open("../README.md");
    reader.has_app(&mut readme).await;

    let teams = page.take("for team in");
    for team in ["shop", "lab", "play"] {
        let create = format!("kubectl create namespace {team}-prod; kubectl create namespace {team}-test");
        reader.types(&create).await;
    }
    reader.runs(teams).await;
    // The shared roles are there, by another tool than Helm.
    reader.runs(page.take("helm install rollouts-play")).await;
    let of_lab = reader
        .gets("deployment kruise-rollout-controller -n rollouts-lab")
        .await;
    let args = &of_lab["spec"]["template"]["spec"]["containers"][0]["args"];
    assert_eq!(args[2], "--watch-namespaces=lab-prod,lab-test");
    page.end();
}

#[tokio::test]
async fn the_switch_and_the_way_back() {
    let control_plane = ControlPlane::start(Options::default()).await.unwrap();
    let reader = Reader::of(&control_plane);
    let mut installation = Installation::new(&control_plane).unwrap();
    let mut page = Page::open("migration.md");
    theirs(&reader, &mut installation).await;
    reader
        .runs(page.take("scale deployment kruise-rollout-controller-manager"))
        .await;
    reader.runs(page.take("not-the-new-controller")).await;
    reader.runs(page.take("manifests | kubectl apply")).await;
    reader.runs(page.take("storedVersions")).await;
    installation.start_controller().await.unwrap();
    reader.runs(page.take("--for=condition=Guarded")).await;
    reader
        .runs(page.take("kubectl delete mutatingwebhookconfiguration"))
        .await;

    installation.kill_controller();
    reader.runs(page.take("kubectl delete clusterrole")).await;
    let admin = control_plane.client(Identity::Admin).await.unwrap();
    wait_nothing_registered(&admin, "the role").await;
    let fingerprint = page.take("rolloutHash").text;
    let named = fingerprint
        .replace("NAMESPACE", "default")
        .replace("NAME", "my-app-rollout");
    reader.types(&named).await;
    page.end();
}

/// The other controller as it is found: a Deployment, a Rollout, and registrations for which nobody answers once it is stopped.
async fn theirs(reader: &Reader<'_>, installation: &mut Installation<'_>) {
    reader.has_operator(installation).await;
    reader
        .types("kruise-rollout-controller manifests crds | kubectl apply --server-side -f -")
        .await;
    let established =
        "kubectl wait --for=condition=Established crd/rollouts.rollouts.kruise.io --timeout=60s";
    reader.types(established).await;
    let mut readme = Page::open("../README.md");
    reader.applies(readme.take(APP)).await;
    reader.applies(readme.take(ROLLOUT)).await;
    let labels = json!({"control-plane": "controller-manager"});
    let objects = json!({"apiVersion": "v1", "kind": "List", "items": [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": names::DEFAULT_NAMESPACE}},
        {"apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": names::LEGACY_DEPLOYMENT, "namespace": names::DEFAULT_NAMESPACE},
            "spec": {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels},
                "spec": {"containers": [{"name": "manager", "image": "theirs"}]}}}},
        registration("Fail"),
        {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": "kruise-rollout-validating-webhook-configuration"}},
    ]});
    reader
        .types(&format!("kubectl apply -f - <<'END'\n{objects}\nEND"))
        .await;
}
