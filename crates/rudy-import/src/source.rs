//! Which server a configuration is for.

use crate::File;

/// A server whose configurations are translated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// nginx: its main file, a part of it, or the output of `nginx -T`.
    Nginx,
    /// A Caddyfile.
    Caddy,
    /// Apache: its main file, virtual hosts, or a `.htaccess`.
    Apache,
    /// `HAProxy`.
    Haproxy,
}

impl Source {
    /// Recognizes a configuration by its name or by its content. `None` if neither is clear.
    #[must_use]
    pub fn of(file: &File) -> Option<Self> {
        let name = file.name.rsplit('/').next().unwrap_or_default().to_ascii_lowercase();
        if name.starts_with("caddyfile") || name.ends_with("caddyfile") {
            return Some(Self::Caddy);
        }
        if name.starts_with("haproxy") || name.ends_with(".haproxy") {
            return Some(Self::Haproxy);
        }
        if name.contains("htaccess")
            || name.ends_with(".apache")
            || name.starts_with("apache")
            || name.starts_with("httpd")
        {
            return Some(Self::Apache);
        }
        if name.starts_with("nginx") {
            return Some(Self::Nginx);
        }
        Self::of_content(&file.text)
    }

    fn of_content(text: &str) -> Option<Self> {
        let lines = || text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
        let begins = |words: &[&str]| {
            lines().any(|line| words.contains(&line.split_whitespace().next().unwrap_or_default()))
        };
        let has_section = text.lines().any(|line| {
            ["global", "defaults", "frontend ", "backend ", "listen "]
                .iter()
                .any(|start| line.starts_with(start))
                && !line.contains(['{', ';'])
        });
        if has_section && begins(&["bind", "server", "mode", "default_backend"]) {
            return Some(Self::Haproxy);
        }
        let has_tag = lines().any(|line| line.starts_with('<') && line.ends_with('>') && !line.contains('{'));
        if has_tag || begins(&["RewriteEngine", "DocumentRoot", "RewriteRule", "Require", "DirectoryIndex"]) {
            return Some(Self::Apache);
        }
        let blocks = ["server {", "http {", "location ", "upstream ", "server{", "events {"];
        let is_nginx = |line: &str| {
            line.ends_with(';')
                || line.contains(';') && line.contains('{')
                || blocks.iter().any(|start| line.starts_with(start))
        };
        if text.starts_with("# configuration file ") || lines().any(is_nginx) {
            return Some(Self::Nginx);
        }
        begins(&[
            "reverse_proxy",
            "file_server",
            "php_fastcgi",
            "handle",
            "handle_path",
            "respond",
            "encode",
            "redir",
        ])
        .then_some(Self::Caddy)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn configurations_are_recognized() {
        for (name, text, expected) in [
            ("/etc/caddy/Caddyfile", "", Some(Source::Caddy)),
            ("/etc/haproxy/haproxy.cfg", "", Some(Source::Haproxy)),
            ("public/.htaccess", "", Some(Source::Apache)),
            ("/etc/nginx/nginx.conf", "", Some(Source::Nginx)),
            ("a.conf", "server {\n  listen 80;\n}", Some(Source::Nginx)),
            ("standard input", "# configuration file /etc/nginx/nginx.conf:\n", Some(Source::Nginx)),
            ("a.conf", "server { listen 80; root www; }", Some(Source::Nginx)),
            ("a.conf", "server {\n  listen 80\n}", Some(Source::Nginx)),
            ("site.conf", "<VirtualHost *:80>\n</VirtualHost>", Some(Source::Apache)),
            ("a.cfg", "frontend web\n  bind :80\n", Some(Source::Haproxy)),
            ("site", "example.org {\n  reverse_proxy :3000\n}", Some(Source::Caddy)),
            ("site", "hello", None),
        ] {
            let file = File { name: name.to_owned(), text: text.to_owned() };
            assert_eq!(Source::of(&file), expected, "{name} {text}");
        }
    }
}
