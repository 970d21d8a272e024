//! Which table files are compacted (paper, section 3.3).
//!
//! There are two policies: [`paper_policy`], and [`garbage_policy`], the default. Both use the list of
//! [`candidate_list`], which four sources fill; the default policy uses only the names from seeks. Three sources watch
//! the store: [`leaf_node_scan`], range queries ([`sequentiality_degree`]) and seeks. When space is short,
//! [`low_space_policy`] chooses.

pub(crate) mod candidate_list;
pub(crate) mod candidate_source;
pub(crate) mod distances;
pub(crate) mod garbage_policy;
pub(crate) mod leaf_node_scan;
pub(crate) mod live_key_ratio;
pub(crate) mod low_space_policy;
pub(crate) mod naming;
pub(crate) mod overlap_ratio;
pub(crate) mod paper_policy;
pub(crate) mod policy;
pub(crate) mod scan_position;
pub(crate) mod seeks;
pub(crate) mod sequentiality_degree;
