//! The binary `kruise-rollout-controller`; everything is in the library of the same name.

use std::process::ExitCode;

fn main() -> ExitCode {
    kruise_rollout_controller::main()
}
