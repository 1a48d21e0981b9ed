//! Cases.

mod control_plane;
