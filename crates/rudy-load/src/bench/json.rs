//! The JSON form of types from other crates, for `#[serde(with)]`.

/// A duration as a number of seconds.
pub(super) mod seconds {
    use std::time::Duration;

    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(in crate::bench) fn serialize<S: Serializer>(
        time: &Duration,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(time.as_secs_f64())
    }

    pub(in crate::bench) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Duration, D::Error> {
        Duration::try_from_secs_f64(f64::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

/// Counts by status, without those that are 0.
pub(super) mod statuses {
    use std::collections::BTreeMap;

    use serde::{Deserialize, Deserializer, Serializer};

    pub(in crate::bench) fn serialize<S: Serializer, const N: usize>(
        counts: &[u64; N],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let counts = counts.iter().enumerate().filter(|(_, count)| **count > 0);
        serializer.collect_map(counts.map(|(status, count)| (status.to_string(), count)))
    }

    pub(in crate::bench) fn deserialize<'de, D: Deserializer<'de>, const N: usize>(
        deserializer: D,
    ) -> Result<Box<[u64; N]>, D::Error> {
        let mut counts = Box::new([0; N]);
        for (status, count) in BTreeMap::<String, u64>::deserialize(deserializer)? {
            // A status that no response can have is ignored.
            if let Some(entry) = status.parse().ok().and_then(|status: usize| counts.get_mut(status)) {
                *entry = count;
            }
        }
        Ok(counts)
    }
}
