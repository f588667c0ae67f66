//! The fields of a request to the origin (RFC 9111 §4.3.1).

use http::HeaderMap;
use http::header::{ACCEPT_ENCODING, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_RANGE, LAST_MODIFIED, RANGE};
use rudy_message::semantics::range;

use crate::lookup::Forward;
use crate::lookup::{Decision, Selected};
use crate::stored::Stored;
use crate::vary::accept_encoding;

impl Decision {
    /// Changes the fields of the client's request for the request to the origin.
    ///
    /// The client's own conditions are not sent: a full response can be stored, and [`Stored::verdict`] then evaluates them. The
    /// request that follows a [`Decision::StaleHit`] is a GET for the whole, whatever the client requested.
    ///
    /// After [`Forward::Bypass`], the fields remain those of the client, and so the response is for the client only: it changes nothing
    /// that is stored. A response to its spelling of `Accept-Encoding` does not suit others whose spelling reduces to the same.
    pub fn prepare(&self, stored: &[impl AsRef<Stored>], fields: &mut HeaderMap) {
        let of = |selected: &Selected| stored[selected.index].as_ref();
        match self {
            Self::Forward(Forward::Method | Forward::Bypass) => return,
            Self::Hit(_) | Self::OnlyIfCached | Self::Forward(_) => remove_conditions(fields),
            Self::Extend(selected) => {
                remove_conditions(fields);
                request_part(of(selected), fields);
            }
            Self::Validate { selected, .. } => add_conditions(of(selected), fields),
            Self::StaleHit(selected) => {
                fields.remove(RANGE);
                fields.remove(IF_RANGE);
                add_conditions(of(selected), fields);
            }
        }
        fields.insert(ACCEPT_ENCODING, accept_encoding(fields));
    }
}

fn remove_conditions(fields: &mut HeaderMap) {
    fields.remove(IF_NONE_MATCH);
    fields.remove(IF_MODIFIED_SINCE);
}

/// Requests the range of the client, or the missing end. With `If-Range`, a changed representation is sent in whole, not a
/// part of it that fits nothing (§3.4).
fn request_part(stored: &Stored, fields: &mut HeaderMap) {
    let Some(tag) = stored.validators.strong_tag() else { return };
    if let (false, Some(start)) = (fields.contains_key(RANGE), stored.missing_end()) {
        fields.insert(RANGE, range::starting_at(start));
    }
    fields.insert(IF_RANGE, tag.value().clone());
}

/// Replaces the client's conditions with those of a validation. §4.3.1: an entity tag MUST be sent, and a modification date
/// SHOULD, unless the request is for a part.
fn add_conditions(stored: &Stored, fields: &mut HeaderMap) {
    remove_conditions(fields);
    if let Some(tag) = &stored.validators.tag {
        fields.insert(IF_NONE_MATCH, tag.value().clone());
    }
    // The date in its original format: origins often compare the text.
    if let (Some(_), Some(date), false) =
        (stored.validators.modified, stored.fields.get(LAST_MODIFIED), fields.contains_key(RANGE))
    {
        fields.insert(IF_MODIFIED_SINCE, date.clone());
    }
}
