//! Detects source code, which must not be sent because it can contain passwords.

use super::options::FilesOptions;
use super::stat::Opened;

/// Extensions that web servers run as PHP or show as source by default, in Debian's packages and in the PHP manual.
const PHP: [&str; 11] =
    ["php", "php3", "php4", "php5", "php6", "php7", "php8", "phtml", "pht", "phps", "phar"];

/// Extensions of files that scripts include, and of backup copies.
const BESIDE_PHP: [&str; 4] = ["inc", "bak", "swp", "orig"];

/// Returns whether a file of this name is not sent.
#[must_use]
pub fn is_withheld(path: &str, options: &FilesOptions) -> bool {
    !options.serve_source && is_source(path, options.on_php_site)
}

/// Returns whether an open file is not sent, by its name or that of the target of a symbolic link.
pub(super) fn is_file_withheld(opened: &Opened, path: &str, options: &FilesOptions) -> bool {
    let behind_links = || opened.name().is_some_and(|name| is_withheld(&name, options));
    !options.serve_source && (is_withheld(path, options) || behind_links())
}

/// Returns whether a file can contain source code, by its name. Ignores case, because on a case-insensitive file system `X.PHP` is
/// `x.php`. On a site that runs PHP, this covers includes, copies (`x.php~`, `x.php_`, `x.inc.bak`) and archives (`x.php.gz`).
fn is_source(path: &str, on_php_site: bool) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default().to_ascii_lowercase();
    let mut extensions = name.split('.').skip(1);
    let last = extensions.clone().last().unwrap_or_default();
    let is_php = |extension: &str| ["php", "pht", "phar"].iter().any(|php| extension.starts_with(php));
    PHP.contains(&last)
        || on_php_site && (name.ends_with('~') || BESIDE_PHP.contains(&last) || extensions.any(is_php))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn source_code_is_detected_by_the_name() {
        for (path, anywhere, on_php_site) in [
            ("a.php", true, true),
            ("x/A.PHP", true, true),
            ("a.php3", true, true),
            ("a.PHP8", true, true),
            ("a.phtml", true, true),
            ("a.pht", true, true),
            ("a.phps", true, true),
            ("a.phar", true, true),
            ("a.inc", false, true),
            ("a.INC", false, true),
            ("a.php~", false, true),
            ("notes~", false, true),
            ("a.php.bak", false, true),
            ("dump.sql.bak", false, true),
            ("a.swp", false, true),
            ("a.orig", false, true),
            ("a.php.gz", false, true),
            ("a.php_", false, true),
            ("a.php-bak", false, true),
            ("#a.php#", false, true),
            ("a.php ", false, true),
            ("a.html", false, false),
            ("php", false, false),
            ("a.php/b.css", false, false),
            ("phpinfo.txt", false, false),
            ("bak", false, false),
        ] {
            assert_eq!(is_source(path, false), anywhere, "{path}");
            assert_eq!(is_source(path, true), on_php_site, "{path} on a PHP site");
        }
    }
}
