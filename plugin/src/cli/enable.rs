//! Arguments of `workload enable`.

use clap::Args;

use super::writing::Writing;

#[derive(Args, Debug)]
pub(crate) struct Enable {
    /// A kind of workloads: the name of its CustomResourceDefinition, such as mystatefulapps.example.io, or another name of the type
    #[arg(value_name = "TYPE")]
    pub(crate) kind: String,
    /// Take the ClusterRole away again; Rollouts of the kind stand still without it
    #[arg(long)]
    pub(crate) remove: bool,
    #[command(flatten)]
    pub(crate) writing: Writing,
}
