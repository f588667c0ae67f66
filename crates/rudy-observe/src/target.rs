//! Names the process to observe: by its id, its name, or the port on which it listens.

use std::fmt;
use std::str::FromStr;

/// The process to observe, as a user names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// The id of the process, or of one of its threads.
    Pid(u32),
    /// The name of the process, or the file name of its program.
    Name(String),
    /// The TCP port on which the process listens.
    Port(u16),
}

impl FromStr for Target {
    type Err = String;

    /// A number is an id, `:8080` a port. A process with such a name can be observed by its id only.
    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(port) = text.strip_prefix(':') {
            let port =
                port.parse().map_err(|_| "expected a port from 1 to 65535 after the colon".to_owned())?;
            return Ok(Self::Port(port));
        }
        Ok(text.parse().map_or_else(|_| Self::Name(text.to_owned()), Self::Pid))
    }
}

/// After the noun "process": `that is named nginx`.
impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pid(pid) => write!(f, "with the id {pid}"),
            Self::Name(name) => write!(f, "with the name {name}"),
            Self::Port(port) => write!(f, "with a listening socket on port {port}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_an_id_and_anything_else_is_a_name() {
        assert_eq!("4711".parse(), Ok(Target::Pid(4711)));
        assert_eq!(":8080".parse(), Ok(Target::Port(8080)));
        assert!(":http".parse::<Target>().is_err());
        assert_eq!("java".parse(), Ok(Target::Name("java".to_owned())));
        assert_eq!("7zip".parse(), Ok(Target::Name("7zip".to_owned())));
    }
}
