//! Changed heads of prepared responses, encoded once.

use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwapOption;
use rudy_message::PreparedHead;

/// The number of heads to keep. The heads of most sites' frequent files fit; with more, some are encoded for each response.
const HEADS: usize = 256;

/// A changed head, and the head that it was made from.
#[derive(Debug)]
struct Derived {
    /// Kept, so that no other head gets its address.
    from: Arc<PreparedHead>,
    head: Arc<PreparedHead>,
}

/// Keeps changed heads by the address of the original. They have no memory until the first one.
#[derive(Debug, Default)]
pub struct DerivedHeads(OnceLock<Box<[ArcSwapOption<Derived>]>>);

impl DerivedHeads {
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the changed head for `from`, which `change` makes if it is not known.
    pub fn get(
        &self,
        from: &Arc<PreparedHead>,
        change: impl FnOnce(&PreparedHead) -> PreparedHead,
    ) -> Arc<PreparedHead> {
        // The multiplier of Fibonacci hashing spreads addresses, whose low bits are equal.
        let hash = (Arc::as_ptr(from).addr() as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let slots = self.0.get_or_init(|| (0..HEADS).map(|_| ArcSwapOption::empty()).collect());
        let slot = &slots[(hash >> 56) as usize % HEADS];
        if let Some(known) = &*slot.load()
            && Arc::ptr_eq(&known.from, from)
        {
            return known.head.clone();
        }
        let head = Arc::new(change(from));
        slot.store(Some(Arc::new(Derived { from: from.clone(), head: head.clone() })));
        head
    }
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, StatusCode};

    use super::*;

    #[test]
    fn a_head_is_changed_once_and_never_taken_for_another() {
        let heads = DerivedHeads::new();
        let statuses: Vec<_> = (200..=599).filter_map(|status| StatusCode::from_u16(status).ok()).collect();
        let originals: Vec<_> =
            statuses.iter().map(|status| Arc::new(PreparedHead::new(*status, HeaderMap::new()))).collect();
        for _ in 0..2 {
            for original in &originals {
                let changed = heads.get(original, PreparedHead::clone);
                assert_eq!(changed.status(), original.status());
                let again = heads.get(original, |_| panic!("it is known"));
                assert!(Arc::ptr_eq(&changed, &again));
            }
        }
    }
}
