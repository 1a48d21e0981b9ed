//! The reference in `docs/` is what the program says of itself.

use std::path::Path;

use crate::world::run;

#[test]
fn the_reference_is_up_to_date() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/kubectl-kruise.md");
    let fresh = run("__docs");
    assert_eq!((fresh.code, fresh.err.as_str()), (0, ""));
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&file, &fresh.out).unwrap();
    }
    let kept = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(
        kept == fresh.out,
        "docs/kubectl-kruise.md is stale: UPDATE_DOCS=1 cargo test -p kubectl-kruise --test commands reference"
    );
}
