//! The requests of a run, which are sent many times.

use std::fmt;

use bytes::Bytes;
use rudy_request::{Encoded, Http2Request};

/// The requests of a run: one, or several with weights.
#[derive(Debug, Clone)]
pub struct Mix {
    requests: Vec<Encoded>,
    /// The index of the k-th request, as a table that is repeated cyclically.
    order: Vec<u32>,
}

/// Maximum sum of weights, which is the size of the table.
pub const WEIGHTS_MAX: u32 = 1_000_000;

/// Fixed-point resolution of the positions in a cycle.
const CYCLE: u64 = 1 << 32;

/// The error of weights whose sum is zero or more than [`WEIGHTS_MAX`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WeightError;

impl fmt::Display for WeightError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the weights must add up to between 1 and {WEIGHTS_MAX}")
    }
}

impl std::error::Error for WeightError {}

impl Mix {
    /// A hash of all requests and their order. FNV-1a, so that it is the same in all versions.
    pub(crate) fn checksum(&self) -> u64 {
        let bytes = self.requests.iter().flat_map(|request| request.bytes.iter().copied());
        let order = self.order.iter().flat_map(|index| index.to_le_bytes());
        bytes.chain(order).fold(0xcbf2_9ce4_8422_2325, |sum: u64, byte| {
            (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        })
    }

    /// Combines requests with weights. Interleaves them evenly, so that every part of a run has the same mix.
    ///
    /// # Errors
    ///
    /// The sum of the weights is zero or too large.
    pub fn new(weighted: Vec<(Encoded, u32)>) -> Result<Self, WeightError> {
        let sum: u64 = weighted.iter().map(|(_, weight)| u64::from(*weight)).sum();
        if sum == 0 || sum > u64::from(WEIGHTS_MAX) {
            return Err(WeightError);
        }
        let (requests, weights): (Vec<_>, Vec<_>) = weighted.into_iter().unzip();
        let divisor = weights.iter().copied().fold(0, greatest_common_divisor);
        let order = interleave(&weights.iter().map(|weight| weight / divisor).collect::<Vec<_>>());
        Ok(Self { requests, order })
    }

    /// The number of distinct requests.
    #[must_use]
    pub(crate) fn len(&self) -> usize {
        self.requests.len()
    }

    /// The index of the k-th request among the distinct requests.
    #[must_use]
    pub(crate) fn request_index(&self, k: u64) -> u32 {
        #[expect(clippy::cast_possible_truncation, reason = "the remainder is less than WEIGHTS_MAX")]
        let turn = (k % self.order.len() as u64) as usize;
        self.order[turn]
    }

    /// The distinct request with this index.
    #[must_use]
    pub(crate) fn request(&self, index: u32) -> &Encoded {
        &self.requests[index as usize]
    }

    /// The k-th request.
    #[must_use]
    pub fn get(&self, k: u64) -> &Encoded {
        &self.requests[self.request_index(k) as usize]
    }

    /// A deep copy. Threads that count references to the same bytes would slow each other down.
    #[must_use]
    pub fn deep_clone(&self) -> Self {
        let copy_http2 = |request: &Http2Request| {
            let body = Bytes::copy_from_slice(&request.body);
            Box::new(Http2Request { head: request.head.clone(), body })
        };
        let copy = |request: &Encoded| Encoded {
            bytes: Bytes::copy_from_slice(&request.bytes),
            info: request.info,
            http2: request.http2.as_deref().map(copy_http2),
        };
        Self { requests: self.requests.iter().map(copy).collect(), order: self.order.clone() }
    }
}

fn greatest_common_divisor(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}

/// The order of the requests in a cycle: the j-th of w occurrences of a request is at position (j + 1/2) / w.
fn interleave(weights: &[u32]) -> Vec<u32> {
    let mut turns: Vec<(u64, u64, u32)> = Vec::new();
    for (request, &weight) in (0_u32..).zip(weights) {
        let weight = u64::from(weight);
        turns.extend((0..weight).map(|turn| (2 * turn + 1, weight, request)));
    }
    // The numerator is below 2^21, so nothing overflows.
    turns.sort_by_key(|&(numerator, denominator, request)| (numerator * CYCLE / denominator, request));
    turns.into_iter().map(|(_, _, request)| request).collect()
}

#[cfg(test)]
mod tests {

    use rudy_request::Template;

    use super::*;

    #[test]
    fn a_mix_interleaves_its_requests_evenly_by_weight() {
        assert_eq!(interleave(&[1, 1, 1]), [0, 1, 2]);
        assert_eq!(interleave(&[3, 1]), [0, 0, 1, 0]);
        assert_eq!(interleave(&[4, 2, 1]), [0, 1, 0, 2, 0, 1, 0]);
        assert_eq!(interleave(&[0, 1]), [1]);
    }

    #[test]
    fn weights_with_a_sum_of_zero_or_above_the_maximum_are_rejected() {
        let request = Template::default().encode(&"a".parse().unwrap()).unwrap();
        for weights in [vec![], vec![0], vec![WEIGHTS_MAX, 1]] {
            let weighted = weights.iter().map(|&weight| (request.clone(), weight)).collect();
            assert_eq!(Mix::new(weighted).unwrap_err(), WeightError);
        }
        let mix = Mix::new(vec![(request.clone(), 2_000_000), (request, 1_000_000)]).unwrap_err();
        assert_eq!(mix, WeightError, "the sum before the division by the common divisor counts");
    }
}
