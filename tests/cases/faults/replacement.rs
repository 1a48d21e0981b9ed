//! Replicas of the controller that are replaced one after the other, as a Deployment does it.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kruise_rollout::names;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use serde_json::json;
use support::{Identity, Replica, eventually};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::interval;

use crate::ground::{Ground, at_work};
use crate::scene::{SOON, Scene, condition, image, partition};

/// One address for several webhooks: each connection goes to the next one that takes it.
struct Balancer {
    port: u16,
    behind: Arc<Mutex<Vec<u16>>>,
    _task: JoinSet<()>,
}

impl Balancer {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let behind = Arc::new(Mutex::new(Vec::new()));
        let mut task = JoinSet::new();
        task.spawn({
            let behind = behind.clone();
            async move {
                let mut connections = JoinSet::new();
                while let Ok((mut caller, _)) = listener.accept().await {
                    let ports: Vec<u16> = {
                        let mut ports: std::sync::MutexGuard<'_, Vec<u16>> =
                            behind.lock().unwrap_or_else(PoisonError::into_inner);
                        if !ports.is_empty() {
                            ports.rotate_left(1);
                        }
                        ports.clone()
                    };
                    connections.spawn(async move {
                        for port in ports {
                            if let Ok(mut webhook) = TcpStream::connect(("127.0.0.1", port)).await {
                                let _ = tokio::io::copy_bidirectional(&mut caller, &mut webhook).await;
                                return;
                            }
                        }
                    });
                }
            }
        });
        Self {
            port,
            behind,
            _task: task,
        }
    }

    fn put(&self, replicas: &[&Replica]) {
        let ports = replicas.iter().map(|replica| replica.webhook).collect();
        *self.behind.lock().unwrap_or_else(PoisonError::into_inner) = ports;
    }
}

/// Workloads of one namespace, each with its Rollout.
async fn many(scene: &Scene<'_>, count: usize) -> Vec<String> {
    let names: Vec<_> = (0..count).map(|number| format!("app-{number}")).collect();
    for name in &names {
        let mut manifest = scene.manifest("v1", Some(0));
        manifest["metadata"]["name"] = json!(name);
        manifest["spec"]["replicas"] = json!(1);
        scene.create_app(&manifest).await;
        let mut rollout = scene.rollout_manifest(&json!([{"replicas": 1, "pause": {}}]));
        rollout["metadata"]["name"] = json!(name);
        rollout["spec"]["workloadRef"]["name"] = json!(name);
        let rollout = serde_json::from_value(rollout).unwrap();
        scene
            .rollouts(&scene.developer)
            .create(&PostParams::default(), &rollout)
            .await
            .unwrap();
    }
    eventually(SOON, "all are guarded", async || {
        let rollouts = scene
            .rollouts(&scene.admin)
            .list(&ListParams::default())
            .await
            .unwrap();
        let guarded = |rollout: &&_| {
            let rollout = serde_json::to_value(rollout).unwrap();
            condition(&rollout, "Guarded")["status"] == "True" && rollout["status"]["phase"] == "Healthy"
        };
        let count = rollouts.items.iter().filter(guarded).count();
        if count == names.len() { Ok(()) } else { Err(count) }
    })
    .await;
    names
}

#[tokio::test]
async fn r62_a_rolling_restart_refuses_nothing_and_lets_nothing_through() {
    let installation = Ground::without_rollouts().await;
    let balancer = Balancer::start().await;
    let start = async || {
        let replica = installation.replica(Some(balancer.port), &[]).unwrap();
        replica.wait_ready().await;
        replica
    };
    let (mut old, mut new) = (start().await, start().await);
    balancer.put(&[&old, &new]);
    at_work(&installation, &new).await;
    let scene = Scene::new(&installation, "rolling").await;
    let workloads = many(&scene, 10).await;
    let audit = installation.control_plane().audit();
    let since = audit.mark();

    let apps = scene.apps(&scene.developer);
    let mut writer = JoinSet::new();
    let (end, mut ended) = tokio::sync::oneshot::channel::<()>();
    writer.spawn(async move {
        let mut rhythm = interval(Duration::from_millis(50));
        // Long enough to see each of them come and go.
        let mut writes = 0;
        let mut over = false;
        while !over || writes < 40 {
            over |= ended.try_recv().is_ok();
            rhythm.tick().await;
            let patch = Patch::Merge(image(&format!("v{}", writes + 2)));
            let name = &workloads[writes % workloads.len()];
            let answer = apps.patch(name, &PatchParams::default(), &patch).await.unwrap();
            let answer = serde_json::to_value(answer).unwrap();
            assert_eq!(partition(&answer), names::HOLD_PARTITION, "{answer:#}");
            writes += 1;
        }
    });
    for _ in 0..4 {
        let next = start().await;
        balancer.put(&[&new, &next]);
        old.process.terminate().unwrap();
        assert!(old.process.wait(SOON).await.unwrap().success());
        old = std::mem::replace(&mut new, next);
    }
    end.send(()).unwrap();
    writer.join_all().await;
    // Not even for the moment in which a new process does not know yet what is governed.
    let registrations = audit.since(since).into_iter().filter(|entry| {
        entry.is_write() && entry.resource == "mutatingwebhookconfigurations" && entry.succeeded()
    });
    for registration in registrations {
        let text = registration.request.to_string();
        assert!(text.contains("mystatefulapps.example.io"), "{text}");
    }
}

/// What is not there is said by `/readyz`, and nothing is answered in its place.
#[tokio::test]
async fn r62_a_replica_is_ready_when_it_can_answer() {
    let installation = Ground::without_rollouts().await;
    let nothing = support::process::scratch("no-certificates").unwrap();
    let replica = installation
        .replica(None, &["--tls-dir", nothing.to_str().unwrap()])
        .unwrap();
    eventually(SOON, "the certificate is missed", async || {
        match replica.ready().await {
            Err(answer) if answer.contains("not ready: certificate") => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;

    let admin =
        std::fs::read_to_string(installation.control_plane().kubeconfig(Identity::Controller)).unwrap();
    let server = admin
        .lines()
        .find(|line| line.contains("server:"))
        .unwrap()
        .trim()
        .to_owned();
    let away = nothing.join("away.kubeconfig");
    let port = support::free_port();
    std::fs::write(
        &away,
        admin.replace(&server, &format!("server: https://127.0.0.1:{port}")),
    )
    .unwrap();
    let replica = installation.replica_with(&away, None, &[]).unwrap();
    // It waits, or it ends with a failure and is started again by others.
    eventually(SOON, "the API server is missed", async || {
        match (replica.process.try_wait().unwrap(), replica.ready().await) {
            (Some(status), _) if !status.success() => Ok(()),
            (None, Err(answer)) if answer.contains("not ready") => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
}
