//! Content negotiation (RFC 9110 §12.5).

use crate::syntax::members;

/// A content coding (RFC 9110 §8.4.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Coding {
    /// No coding.
    Identity,
    /// RFC 1952.
    Gzip,
    /// RFC 8878.
    Zstd,
    /// RFC 7932.
    Brotli,
}

impl Coding {
    /// The codings that compress, from the smallest result for text to the largest. Ties are broken in this order.
    pub const COMPRESSED: [Self; 3] = [Self::Brotli, Self::Zstd, Self::Gzip];

    /// Returns the name in `Content-Encoding`; empty for [`Self::Identity`], which is never listed (§8.4).
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Identity => "",
            Self::Gzip => "gzip",
            Self::Zstd => "zstd",
            Self::Brotli => "br",
        }
    }

    /// Returns the extension of a precompressed file in this coding.
    #[must_use]
    pub fn extension(self) -> &'static str {
        match self {
            Self::Identity => "",
            Self::Gzip => ".gz",
            Self::Zstd => ".zst",
            Self::Brotli => ".br",
        }
    }
}

/// The codings that a client accepts, each with its weight in thousandths; 0 is "not acceptable".
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AcceptedCodings {
    brotli: u16,
    zstd: u16,
    gzip: u16,
    identity: u16,
}

impl AcceptedCodings {
    /// Parses the lines of `Accept-Encoding` (§12.5.3). Without the field, only identity is acceptable: the RFC allows any
    /// coding then, but such clients often cannot decode it (curl without `--compressed`).
    #[must_use]
    pub fn parse<'a, V: AsRef<[u8]> + ?Sized + 'a>(lines: impl IntoIterator<Item = &'a V>) -> Self {
        let (mut brotli, mut zstd, mut gzip, mut identity, mut any) = (None, None, None, None, None);
        for (name, weight) in lines.into_iter().flat_map(|line| weighted(line.as_ref())) {
            let coding = match name {
                b"*" => &mut any,
                name if name.eq_ignore_ascii_case(b"br") => &mut brotli,
                name if name.eq_ignore_ascii_case(b"zstd") => &mut zstd,
                // §8.4.1.3: a recipient SHOULD treat "x-gzip" as "gzip".
                name if name.eq_ignore_ascii_case(b"gzip") || name.eq_ignore_ascii_case(b"x-gzip") => {
                    &mut gzip
                }
                name if name.eq_ignore_ascii_case(b"identity") => &mut identity,
                _ => continue,
            };
            *coding = Some(weight);
        }
        let or_any = |weight: Option<u16>| weight.or(any).unwrap_or(0);
        Self {
            brotli: or_any(brotli),
            zstd: or_any(zstd),
            gzip: or_any(gzip),
            // §12.5.3: acceptable unless excluded, but less preferred than any listed coding.
            identity: identity.or(any).unwrap_or(WEIGHT_MIN),
        }
    }

    /// Returns the best coding for which `available` is true. If weights are equal, the best compression wins.
    ///
    /// If no coding is acceptable, it returns [`Coding::Identity`], which §12.5.3 allows: an error would not help the client.
    #[must_use]
    pub fn choose(self, available: impl FnMut(Coding) -> bool) -> Coding {
        self.choose_from(&Coding::COMPRESSED, available)
    }

    /// Returns the best of `offers` for which `available` is true, as [`Self::choose`] does. If weights are equal, the first wins.
    #[must_use]
    pub fn choose_from(self, offers: &[Coding], mut available: impl FnMut(Coding) -> bool) -> Coding {
        let mut best = (Coding::Identity, self.identity);
        // In reverse, so that the first of equal codings wins.
        for &coding in offers.iter().rev() {
            let weight = self.weight(coding);
            if weight > 0 && weight >= best.1 && available(coding) {
                best = (coding, weight);
            }
        }
        best.0
    }

    /// Whether the client accepts this coding.
    #[must_use]
    pub fn accepts(self, coding: Coding) -> bool {
        self.weight(coding) > 0
    }

    fn weight(self, coding: Coding) -> u16 {
        match coding {
            Coding::Identity => self.identity,
            Coding::Gzip => self.gzip,
            Coding::Zstd => self.zstd,
            Coding::Brotli => self.brotli,
        }
    }
}

/// Returns the offered media type with the highest weight in the lines of `Accept` (§12.5.1). If weights are equal, the first
/// wins, also if the field is missing or no type is acceptable.
#[must_use]
pub fn choose_media_type<'a, 'o, V: AsRef<[u8]> + ?Sized + 'a>(
    lines: impl IntoIterator<Item = &'a V>,
    offers: &[&'o str],
) -> Option<&'o str> {
    let ranked = offers.iter().zip(media_type_weights(lines, offers)).rev();
    ranked.max_by_key(|(_, weight)| *weight).map(|(offer, _)| *offer)
}

/// Returns the weight of each offered media type in the lines of `Accept`, in thousandths: 0 if it is not acceptable, or the field is
/// missing.
#[must_use]
pub fn media_type_weights<'a, V: AsRef<[u8]> + ?Sized + 'a>(
    lines: impl IntoIterator<Item = &'a V>,
    offers: &[&str],
) -> Vec<u16> {
    let mut weights = vec![(0_u8, 0_u16); offers.len()];
    for (range, weight) in lines.into_iter().flat_map(|line| weighted(line.as_ref())) {
        for (offer, known) in offers.iter().zip(&mut weights) {
            // §12.5.1: the most specific matching range wins, regardless of the order.
            let precision = precision(range, offer);
            if precision > 0 && precision >= known.0 {
                *known = (precision, weight);
            }
        }
    }
    weights.into_iter().map(|(_, weight)| weight).collect()
}

/// Returns how precisely a media range matches a media type: 0 no match, 1 `*/*`, 2 `type/*`, 3 exact.
fn precision(range: &[u8], media_type: &str) -> u8 {
    let kind = media_type.split('/').next().unwrap_or_default();
    match range {
        b"*/*" => 1,
        [start @ .., b'/', b'*'] if start.eq_ignore_ascii_case(kind.as_bytes()) => 2,
        exact if exact.eq_ignore_ascii_case(media_type.as_bytes()) => 3,
        _ => 0,
    }
}

/// The weight of identity if it is acceptable but not listed.
const WEIGHT_MIN: u16 = 1;

/// Returns the one of these languages that a client prefers by the lines of its `Accept-Language`. `None` if it accepts none of them.
#[must_use]
pub fn preferred_language<'l>(
    lines: impl IntoIterator<Item = &'l [u8]>,
    languages: &'l [String],
) -> Option<&'l str> {
    let mut ranges: Vec<_> = lines.into_iter().flat_map(weighted).filter(|(_, weight)| *weight > 0).collect();
    // Stable: of several with the same weight, the first one counts.
    ranges.sort_by_key(|(_, weight)| std::cmp::Reverse(*weight));
    ranges.into_iter().find_map(|(range, _)| look_up_language(range, languages))
}

/// Looks up a language: `de-CH-1996`, then `de-CH`, then `de` (RFC 4647 §3.4).
fn look_up_language<'l>(mut range: &[u8], languages: &'l [String]) -> Option<&'l str> {
    loop {
        let is_range = |language: &&String| language.as_bytes().eq_ignore_ascii_case(range);
        if let Some(language) = languages.iter().find(is_range) {
            return Some(language);
        }
        range = &range[..range.iter().rposition(|byte| *byte == b'-')?];
        // A single character begins an extension, and is removed with it.
        if let [shorter @ .., b'-', _] = range {
            range = shorter;
        }
    }
}

/// Returns the elements of a list with their weights, without those whose weight is invalid.
fn weighted(list: &[u8]) -> impl Iterator<Item = (&[u8], u16)> {
    members(list).filter_map(|element| {
        let mut fields = element.split(|&byte| byte == b';').map(<[u8]>::trim_ascii);
        let name = fields.next().filter(|name| !name.is_empty())?;
        let weight = fields.find_map(|field| {
            let (key, value) = field.split_at_checked(2)?;
            key.eq_ignore_ascii_case(b"q=").then_some(value)
        });
        Some((name, weight.map_or(Some(1000), thousandths)?))
    })
}

/// Parses a `qvalue` (§12.4.2), `0` or `1` with at most three decimals, into thousandths.
fn thousandths(value: &[u8]) -> Option<u16> {
    let (whole, fraction) = value.split_first()?;
    let digits = match fraction {
        [] => &[],
        [b'.', digits @ ..] if digits.len() <= 3 && digits.iter().all(u8::is_ascii_digit) => digits,
        _ => return None,
    };
    let part =
        (0..3).fold(0, |sum, place| sum * 10 + u16::from(digits.get(place).map_or(0, |digit| digit - b'0')));
    match (whole, part) {
        (b'0', part) => Some(part),
        (b'1', 0) => Some(1000),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::Coding::{Brotli, Gzip, Identity, Zstd};
    use super::*;

    fn choose(accept: &[&str], available: &[Coding]) -> Coding {
        AcceptedCodings::parse(accept.iter().copied()).choose(|coding| available.contains(&coding))
    }

    #[test]
    fn a_language_is_looked_up_by_weight_and_then_without_its_last_parts() {
        let languages = ["en", "de", "pt-BR", "zh-Hant"].map(str::to_owned);
        for (accept, expected) in [
            (&["de"][..], Some("de")),
            (&["DE-ch"], Some("de")),
            (&["fr, en;q=0.5, de;q=0.8"], Some("de")),
            (&["fr;q=1", "de;q=0.5, en;q=0.5"], Some("de")),
            (&["pt-br, en;q=0.9"], Some("pt-BR")),
            (&["pt, en;q=0.9"], Some("en")),
            (&["zh-Hant-CN-x-private1"], Some("zh-Hant")),
            (&["zh-Hant-x"], Some("zh-Hant")),
            (&["zh-x-a"], None),
            (&["de;q=0, fr"], None),
            (&["*"], None),
            (&["", "-", "--", "-de", "de-"], Some("de")),
            (&["de;q=2, en;q=0.1"], Some("en")),
            (&[], None),
        ] {
            let lines = accept.iter().map(|line| line.as_bytes());
            assert_eq!(preferred_language(lines, &languages), expected, "{accept:?}");
        }
    }

    #[test]
    fn the_coding_with_the_highest_weight_wins_and_ties_go_to_the_smallest() {
        let all = [Gzip, Zstd, Brotli];
        for (accept, available, expected) in [
            ("gzip, deflate, br, zstd", &all[..], Brotli),
            ("gzip, deflate, br, zstd", &[Gzip, Zstd], Zstd),
            ("gzip, deflate", &all, Gzip),
            ("gzip, deflate", &[Brotli], Identity),
            ("deflate", &all, Identity),
            ("br;q=0.5, gzip;q=0.8", &all, Gzip),
            ("br;q=0.001", &all, Brotli),
            ("br;q=0, gzip", &all, Gzip),
            ("br;q=0", &all, Identity),
            ("BR ; Q=0.5", &all, Brotli),
            ("x-gzip", &all, Gzip),
            ("*", &all, Brotli),
            ("*;q=0", &all, Identity),
            ("*;q=0, gzip", &all, Gzip),
            ("*, br;q=0", &all, Zstd),
            ("identity", &all, Identity),
            ("identity, gzip;q=0.5", &all, Identity),
            ("identity;q=0.5, gzip;q=0.5", &all, Gzip),
            ("identity;q=0.5, gzip", &all, Gzip),
            ("gzip;q=0.5, *;q=0.8", &[Gzip], Identity),
            ("identity;q=0", &all, Identity),
            ("identity;q=0, gzip", &all, Gzip),
            ("identity;q=0, gzip", &[], Identity),
            ("br;q=2, gzip;q=x, zstd;q=0.1234", &all, Identity),
            ("gzip;q=1.000", &all, Gzip),
            (",, gzip ,", &all, Gzip),
            ("", &all, Identity),
        ] {
            assert_eq!(choose(&[accept], available), expected, "{accept:?} of {available:?}");
        }
        assert_eq!(choose(&[], &all), Identity);
        assert_eq!(choose(&["gzip;q=0.5", "br"], &all), Brotli);
    }

    #[test]
    fn a_media_type_is_chosen_by_its_most_specific_range() {
        let offers = ["text/html", "application/json"];
        for (accept, expected) in [
            ("application/json", "application/json"),
            ("text/html,application/xhtml+xml,*/*;q=0.8", "text/html"),
            ("*/*", "text/html"),
            ("application/*", "application/json"),
            ("text/*;q=0.5, application/json;q=0.6", "application/json"),
            ("text/html;q=0.5, */*", "application/json"),
            ("*/*, text/html;q=0.5", "application/json"),
            ("Application/JSON", "application/json"),
            ("application/json;q=0, */*", "text/html"),
            ("image/png", "text/html"),
            ("", "text/html"),
        ] {
            assert_eq!(choose_media_type([accept], &offers), Some(expected), "{accept}");
        }
        assert_eq!(choose_media_type([""; 0], &offers), Some("text/html"));
        assert_eq!(choose_media_type([""; 0], &[]), None);
    }

    proptest! {
        #[test]
        fn only_an_available_coding_is_chosen(accept in "[a-z*;=q.01, ]{0,40}") {
            prop_assert_eq!(choose(&[&accept], &[]), Identity);
            prop_assert!([Identity, Gzip].contains(&choose(&[&accept], &[Gzip])));
        }
    }
}
