//! Faults that people have reported of products of this kind, each as a case. Names begin with the number of the report.

mod native;
mod pods;
mod stuck;
