//! Tables and trees, as they are printed.

use kruise_rollout::api::v1beta1::Condition;
use kruise_rollout::report::{
    Detail, EventReport, Overlay, OverlayKind, PodReport, PodRole, RevisionReport, RevisionState, Source,
};

use super::*;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn pod(ordinal: usize, update: bool, batch: Option<usize>) -> PodReport {
    PodReport {
        name: format!("my-app-{ordinal}"),
        revision: Some(format!("my-app-{}", if update { "5c9b" } else { "6f7d" })),
        role: if update { PodRole::Update } else { PodRole::Stable },
        batch,
        ready: true,
        state: "Running".to_owned(),
        detail: None,
        containers: 1,
        ready_containers: 1,
        restarts: 0,
        node: Some("node-0".to_owned()),
        created: Some(at(940)),
    }
}

fn crashing(ordinal: usize) -> PodReport {
    PodReport {
        ready: false,
        ready_containers: 0,
        restarts: 7,
        state: "CrashLoopBackOff".to_owned(),
        detail: Some("container app in CrashLoopBackOff: exit code 1".to_owned()),
        ..pod(ordinal, true, Some(2))
    }
}

fn all_pods() -> Vec<PodReport> {
    vec![
        pod(0, false, None),
        pod(1, false, None),
        pod(2, false, None),
        crashing(3),
        pod(4, true, Some(1)),
    ]
}

fn happened(object: &str, message: &str, count: u64) -> EventReport {
    EventReport {
        kind: "Normal".to_owned(),
        reason: "Progressing".to_owned(),
        object: object.to_owned(),
        message: message.to_owned(),
        count,
        first: Some(at(400)),
        last: Some(at(990)),
        names: vec!["e".to_owned()],
    }
}

fn revision(number: i64, state: Option<RevisionState>) -> RevisionReport {
    RevisionReport {
        revision: number,
        name: format!("my-app-rollout-{number}"),
        source: Source::Rollout,
        hash: state.map(|_| format!("my-app-{number}")),
        created: Some(at(1000 - 86_400 * number)),
        state,
        change_cause: (number == 2).then(|| "new image".to_owned()),
        images: vec![format!("app:v{number}"), "proxy:v1".to_owned()],
    }
}

#[test]
fn the_tree() {
    assert_eq!(
        text(super::super::tree::tree(&awaiting(), Some(&all_pods()), Some(at(0)), PLAIN, at(1000))),
        "\
NAME                        STATE               AGE  INFO
Rollout/my-app-rollout      ⏸ AwaitingApproval  -
└─ MyStatefulApp/my-app     1/5 updated         16m  partition 4
   ├─ revision my-app-5c9b  update                   2 pods, 1 ready
   │  ├─ batch 1
   │  │  └─ my-app-4        ✔ Running           60s  1/1
   │  └─ batch 2
   │     └─ my-app-3        ✖ CrashLoopBackOff  60s  0/1, 7 restarts, container app in CrashLoopBackOff: exit code 1
   └─ revision my-app-6f7d  stable                   3 pods, 3 ready
      ├─ my-app-0           ✔ Running           60s  1/1
      ├─ my-app-1           ✔ Running           60s  1/1
      └─ my-app-2           ✔ Running           60s  1/1"
    );
}

#[test]
fn the_tree_in_ascii_and_without_pods() {
    assert_eq!(
        text(super::super::tree::tree(&awaiting(), None, None, ASCII, at(1000))),
        "\
NAME                     STATE               AGE  INFO
Rollout/my-app-rollout   = AwaitingApproval  -
`- MyStatefulApp/my-app  1/5 updated         -    partition 4"
    );
}

#[test]
fn lists() {
    let mut young = timed();
    young.name = "b".to_owned();
    young.created = Some(at(970));
    young.since = Some(at(880));
    young.message = "step 2\nwaits".to_owned();
    let mut idle = base(State::Idle, Verdict::Complete);
    idle.workload = WorkloadReport::default();
    idle.revisions = Revisions::default();
    let list = |namespace: bool, wide: bool| {
        let columns = Columns { namespace, wide };
        let rows = [awaiting(), young.clone(), idle.clone()].map(|report| columns.row(&report, at(1000)));
        text(table::Table::lines(&columns.header(), &rows, true))
    };
    assert_eq!(
        list(false, false),
        "\
NAME            WORKLOAD              STATE             STEP  UPDATED  READY  AGE
my-app-rollout  MyStatefulApp/my-app  AwaitingApproval  1/3   1/5      5      -
b               MyStatefulApp/my-app  TimedPause        2/3   3/5      5      30s
my-app-rollout  /                     Idle              -     -        -      -"
    );
    assert_eq!(
        list(true, true),
        "\
NAMESPACE  NAME            WORKLOAD              STATE             STEP  UPDATED  READY  AGE  STRATEGY  REVISION     PARTITION  PAUSED-FOR  MESSAGE
shop       my-app-rollout  MyStatefulApp/my-app  AwaitingApproval  1/3   1/5      5      -    canary    my-app-5c9b  4          -           step 1 of 3: 1 of 5 pods are updated and ready; waiting for approval
shop       b               MyStatefulApp/my-app  TimedPause        2/3   3/5      5      30s  canary    my-app-5c9b  4          2m          step 2 waits
shop       my-app-rollout  /                     Idle              -     -        -      -    canary    -            -          -           -"
    );
    let columns = Columns {
        namespace: true,
        wide: false,
    };
    assert_eq!(
        columns.gone("shop", "b"),
        ["shop", "b", "-", "Deleted", "-", "-", "-", "-"]
    );
}

#[test]
fn tables_of_pods() {
    let pods_of = |wide: bool, headers: bool| text(pods(&all_pods()[2..], wide, headers, at(1000)));
    assert_eq!(
        pods_of(false, true),
        "\
NAME      REVISION     ROLE    BATCH  READY  STATE             RESTARTS  AGE
my-app-2  my-app-6f7d  stable  -      1/1    Running           0         60s
my-app-3  my-app-5c9b  update  2      0/1    CrashLoopBackOff  7         60s
my-app-4  my-app-5c9b  update  1      1/1    Running           0         60s"
    );
    assert_eq!(
        pods_of(true, false),
        "\
my-app-2  my-app-6f7d  stable  -  1/1  Running           0  60s  node-0  -
my-app-3  my-app-5c9b  update  2  0/1  CrashLoopBackOff  7  60s  node-0  container app in CrashLoopBackOff: exit code 1
my-app-4  my-app-5c9b  update  1  1/1  Running           0  60s  node-0  -"
    );
}

#[test]
fn timelines() {
    let told = [
        happened("rollout/my-app-rollout", "step 1 begins", 1),
        happened("pod/my-app-4", "Pulled the image\nquickly", 3),
    ];
    assert_eq!(
        text(events(&told, false, true, PLAIN, at(1000))),
        "\
AGE  TYPE    REASON       OBJECT                  MESSAGE
10s  Normal  Progressing  rollout/my-app-rollout  step 1 begins
10s  Normal  Progressing  pod/my-app-4            Pulled the image quickly ×3"
    );
    assert_eq!(
        text(events(&told[1..], true, true, ASCII, at(1000))),
        "\
AGE  TYPE    REASON       OBJECT        FIRST-SEEN  COUNT  MESSAGE
10s  Normal  Progressing  pod/my-app-4  10m         3      Pulled the image quickly x3"
    );
    assert_eq!(
        event(&told[0], PLAIN, at(1000)),
        "1970-01-01T00:16:30Z Normal Progressing rollout/my-app-rollout step 1 begins"
    );
}

#[test]
fn histories() {
    let all = [
        revision(3, Some(RevisionState::Update)),
        revision(2, Some(RevisionState::Stable)),
        revision(1, None),
    ];
    assert_eq!(
        text(revisions(all.iter(), false, true, at(1000))),
        "\
REVISION  HASH      AGE  STATE   CHANGE-CAUSE  IMAGES
3         my-app-3  3d   update  -             app:v3,proxy:v1
2         my-app-2  2d   stable  new image     app:v2,proxy:v1
1         -         24h  -       -             app:v1,proxy:v1"
    );
    assert_eq!(
        text(revisions(all[2..].iter(), true, false, at(1000))),
        "1  -  24h  -  -  app:v1,proxy:v1  Rollout  my-app-rollout-1"
    );
    assert_eq!(kept_by(&all[0]), "controllerrevision.apps/my-app-rollout-3");
}

#[test]
fn all_of_it() {
    let mut stale = failing();
    stale.next = Some("kubectl delete pod my-app-4 -n shop".to_owned());
    stale.overlays = vec![Overlay {
        kind: OverlayKind::Stale,
        message: "the controller has not looked".to_owned(),
    }];
    let whole = Detail {
        report: stale,
        conditions: vec![Condition {
            type_: "Progressing".to_owned(),
            status: "True".to_owned(),
            reason: "InRolling".to_owned(),
            message: "step 1".to_owned(),
            ..Condition::default()
        }],
        revisions: Some(vec![revision(1, None)]),
        pods: Some(vec![pod(4, true, Some(1))]),
        events: Some(vec![happened("pod/my-app-4", "Started", 1)]),
    };
    assert_eq!(
        text(detail(&whole, None, false, PLAIN, at(1000))),
        "\
Name:       my-app-rollout
Namespace:  shop
Workload:   MyStatefulApp.example.io my-app
State:      ✖ Upgrading, step 1 of 3
Revision:   my-app-6f7d → my-app-5c9b
Pods:       1 of 5 updated, 5 ready
Warning:    2 pods beyond the step run the new template: 1 allowed
Warning:    the controller has not looked
Not ready:  my-app-4 CrashLoopBackOff
Not ready:  my-app-0 not ready (revision my-app-6f7d)

STEP  REPLICAS  PODS  UPDATED  READY  PAUSE     STATE
1     1         1     1        1      approval  current
2     50%       3     1        1      300s
3     100%      5     1        1      none

NAME                        STATE        AGE  INFO
Rollout/my-app-rollout      ✖ Upgrading  -
└─ MyStatefulApp/my-app     1/5 updated  -    partition 4
   └─ revision my-app-5c9b  update            1 pod, 1 ready
      └─ batch 1
         └─ my-app-4        ✔ Running    60s  1/1

Revisions:
  REVISION  HASH  AGE  STATE  CHANGE-CAUSE  IMAGES
  1         -     24h  -      -             app:v1,proxy:v1

Conditions:
  TYPE         STATUS  REASON     AGE  MESSAGE
  Progressing  True    InRolling  -    step 1

Events:
  AGE  TYPE    REASON       OBJECT        MESSAGE
  10s  Normal  Progressing  pod/my-app-4  Started

Next: kubectl delete pod my-app-4 -n shop"
    );
}

#[test]
fn ages_are_those_of_kubectl() {
    let ago = |seconds: i64| age(Some(at(0)), at(seconds));
    for (seconds, text) in [
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (125, "2m5s"),
        (600, "10m"),
        (10_799, "179m"),
        (10_800, "3h"),
        (10_860, "3h1m"),
        (28_800, "8h"),
        (172_800, "2d"),
        (176_400, "2d1h"),
        (691_200, "8d"),
        (63_072_000, "2y"),
    ] {
        assert_eq!(ago(seconds), text, "{seconds}");
    }
    // A clock that is behind the server's.
    assert_eq!(age(Some(at(9)), at(0)), "0s");
    assert_eq!(age(None, at(0)), "-");
}

#[test]
fn what_servers_say_in_the_other_views_cannot_move_the_cursor() {
    let evil = || "x\x1b[2J\u{9b}2J\r".to_owned();
    let mut pod = crashing(3);
    (pod.state, pod.detail, pod.revision, pod.node) = (evil(), Some(evil()), Some(evil()), Some(evil()));
    let mut told = happened(&evil(), &evil(), 2);
    (told.reason, told.kind) = (evil(), evil());
    let mut kept = revision(2, None);
    (kept.hash, kept.change_cause, kept.images, kept.name) =
        (Some(evil()), Some(evil()), vec![evil()], evil());
    let mut report = awaiting();
    (report.workload.kind, report.message, report.phase) = (evil(), evil(), evil());
    report.state = State::Unknown(evil());
    let condition = Condition {
        type_: evil(),
        status: evil(),
        reason: evil(),
        message: evil(),
        ..Condition::default()
    };
    let columns = Columns {
        namespace: true,
        wide: true,
    };
    let row = columns.row(&report, at(0)).join(" ");
    let whole = Detail {
        report,
        conditions: vec![condition],
        revisions: Some(vec![kept.clone()]),
        pods: Some(vec![pod.clone()]),
        events: Some(vec![told.clone()]),
    };
    for out in [
        row,
        text(detail(&whole, None, true, PLAIN, at(0))),
        text(pods(&[pod], true, true, at(0))),
        event(&told, PLAIN, at(0)),
        kept_by(&kept),
    ] {
        assert!(!out.chars().any(|c| c.is_control() && c != '\n'), "{out:?}");
    }
}
