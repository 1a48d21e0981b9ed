//! The binary `kruise-rollout-controller`; everything is in the library of the same name.

use std::process::ExitCode;

/// That of musl is made for small size, and a review takes three times as long with it.
#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: dlmalloc::GlobalDlmalloc = dlmalloc::GlobalDlmalloc;

fn main() -> ExitCode {
    kruise_rollout_controller::main()
}
