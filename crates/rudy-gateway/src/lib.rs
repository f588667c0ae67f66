//! Applications behind FastCGI, and PHP sites.

pub mod fastcgi;
pub mod php;
