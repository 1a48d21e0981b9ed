//! Faults that people have reported of products of this kind; a case begins with the number of its report.

mod alone;
mod callers;
mod certificates;
mod native;
mod outage;
mod webhook;
mod writers;
