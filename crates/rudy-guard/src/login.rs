//! How a request gets a user.

/// How a request gets a user.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Login {
    /// A password is verified.
    pub has_passwords: bool,
    /// An authorizer is asked, which may name no user.
    pub has_authorizer: bool,
    /// A password is verified, or an authorizer names the user.
    pub has_users: bool,
}

impl Login {
    /// Returns what either of two routes has.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self {
            has_passwords: self.has_passwords || other.has_passwords,
            has_authorizer: self.has_authorizer || other.has_authorizer,
            has_users: self.has_users || other.has_users,
        }
    }
}
