//! How a request gets a user.

/// How a request gets a user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Login {
    /// A password is verified.
    pub(crate) has_passwords: bool,
    /// An authorizer is asked, which may name no user.
    pub(crate) has_authorizer: bool,
    /// A password is verified, or an authorizer names the user.
    pub(crate) has_users: bool,
}

impl Login {
    /// Returns what either of two routes has.
    pub(crate) fn or(self, other: Self) -> Self {
        Self {
            has_passwords: self.has_passwords || other.has_passwords,
            has_authorizer: self.has_authorizer || other.has_authorizer,
            has_users: self.has_users || other.has_users,
        }
    }
}
