//! Configurations of other servers in place of `rudy.toml`.

use snapbox::str;

use super::{errors, load};
use crate::config::other_formats::other_format;

/// What a text is taken for: a word of the sentence.
fn format_of(text: &str) -> Option<&'static str> {
    let sentence = other_format(text)?;
    let known = ["nginx", "Apache", "HAProxy", "Caddy", "JSON", "YAML"];
    known.into_iter().find(|name| sentence.contains(&format!(" {name},")))
}

const NGINX: &[&str] = &[
    "user www-data;\nworker_processes auto;\n\nevents {\n    worker_connections 768;\n}\nhttp {\n    include mime.types;\n}\n",
    "# site\nserver {\n    listen 80 default_server; # all\n    root /var/www/html;\n    location / {\n        try_files $uri $uri/ =404;\n    }\n}\n",
    "server\n{\n    listen 443 ssl;\n    server_name example.org;\n}\n",
    "server { listen 80; return 301 https://$host$request_uri; }",
    "upstream app {\n    server 127.0.0.1:3000 max_fails=3;\n}\n",
    "map $http_upgrade $connection_upgrade {\n    default upgrade;\n    '' close;\n}\n",
    "location /api/ {\n    proxy_pass http://127.0.0.1:3000;\n    if ($request_method = POST) { return 405; }\n}\n",
    "proxy_cache_path /var/cache/nginx\n    levels=1:2\n    keys_zone=app:10m;\n",
    "log_format main '$remote_addr - $remote_user [$time_local] '\n    '\"$request\"';\naccess_log logs/access.log main;\n",
    "\u{feff}gzip on;\r\nserver {\r\n}\r\n",
];

const CADDY: &[&str] = &[
    "example.org {\n\troot * /srv/www\n\tfile_server\n}\n",
    ":80 {\n\treverse_proxy localhost:3000\n}\n",
    "example.org, www.example.org {\n\tencode zstd gzip\n\tphp_fastcgi unix//run/php/php-fpm.sock\n}\n",
    "{\n\temail admin@example.org\n}\n\nexample.org {\n\trespond \"Hello\"\n}\n",
    "localhost\n\nreverse_proxy 127.0.0.1:9000\n",
    "(common) {\n\theader X-Frame-Options DENY\n}\n",
    "http://*.example.org:8080 {\n\t@api path /api/*\n\thandle @api {\n\t}\n}\n",
    "{$DOMAIN} {\n\ttls internal\n}\n",
];

const APACHE: &[&str] = &[
    "<VirtualHost *:80>\n    ServerName example.org\n    DocumentRoot /var/www\n</VirtualHost>\n",
    "# BEGIN WordPress\n<IfModule mod_rewrite.c>\nRewriteEngine On\nRewriteBase /\nRewriteRule . /index.php [L]\n</IfModule>\n",
    "RewriteEngine On\nRewriteCond %{REQUEST_FILENAME} !-f\nRewriteRule ^ index.php [L]\n",
    "Options -Indexes\nErrorDocument 404 /404.html\n",
    "AuthType Basic\nAuthName \"staff\"\nRequire valid-user\n",
    "php_value upload_max_filesize 20M\n",
    "Listen 80\nServerRoot \"/etc/apache2\"\n",
];

const HAPROXY: &[&str] = &[
    "global\n    log /dev/log local0\n    maxconn 4096\n\ndefaults\n    mode http\n",
    "defaults\n    mode http\n    timeout connect 5s\n",
    "frontend www\n    bind :80\n    default_backend app\n\nbackend app\n    server a 10.0.0.1:3000 check\n",
    "listen stats\n    bind :8404\n    stats enable\n",
];

/// Files of TOML with an error, some of which resemble other formats.
const TOML: &[&str] = &[
    "listen = [\"127.0.0.1:80]\n[[site]]\nroot = 1\n",
    "[[site]\nroot = \"public\"\n",
    "[[site]]\nserver {\n    listen 80;\n}\n",
    "server {\n    listen = 80,\n    root = \"public\",\n}\n",
    "server {\n    listen 80;\n}\n[[site]]\nroot = \"public\"\n",
    "root = \"public;\n",
    "root = public;\n",
    "root \"public\"\n",
    "listen 8080\n[[site]]\n",
    "listen: 8080\n[[site]]\nroot: \"public\"\n",
    "listen ; [\":80\"]\n",
    "location { path = \"/x\" }\n",
    "example.org {\nroot = \"public\"\n}\n",
    "hosts = example.org\n",
    "Listen = 80;\n",
    "global\n[limits]\nbody_bytes = \"1M\"\n",
    "{ \"site\" = [] }\n[[site]]\n",
    "<<<<<<< HEAD\nlisten = 80\n=======\nlisten = 81\n>>>>>>> x\n",
    "server = {\n  host: 1\n}\n",
    "\u{0}\u{1}",
    "x",
];

#[test]
fn configurations_of_other_servers_are_recognized() {
    for (name, samples) in [("nginx", NGINX), ("Caddy", CADDY), ("Apache", APACHE), ("HAProxy", HAPROXY)] {
        for sample in samples {
            assert_eq!(format_of(sample), Some(name), "{sample}");
        }
    }
    assert_eq!(format_of("{\"site\": [{\"root\": \"public\"}]}"), Some("JSON"));
    assert_eq!(format_of("{\n  \"apps\": { \"http\": {} }\n}\n"), Some("JSON"));
    assert_eq!(format_of("---\nsite:\n  - root: public\n"), Some("YAML"));
    assert_eq!(
        format_of("# Rudy\nlisten: 8080\nsite:\n  - root: public\n    hosts:\n      - a.org\n"),
        Some("YAML")
    );
}

#[test]
fn toml_with_a_syntax_error_is_not_taken_for_another_format() {
    for text in TOML {
        assert_eq!(format_of(text), None, "{text}");
        assert!(load(&[("rudy.toml", text)]).is_err(), "{text}");
    }
}

#[test]
fn a_file_that_is_no_toml_gets_one_sentence() {
    snapbox::assert_data_eq!(
        errors(NGINX[1]),
        str![[r"
error: this is a configuration of nginx, and a configuration of Rudy is TOML: `rudy import` translates it, and docs/from-nginx.md shows how to write it
 --> rudy.toml:2:1
  |
2 | server {
  | ^^^^^^^^

1 error in the configuration

"]]
    );
    let main = "include = 'sites/*.conf'\n[[site]]\nroot = '.'\n";
    let output = load(&[("rudy.toml", main), ("sites/a.conf", HAPROXY[2])]).unwrap_err();
    assert!(output.contains("--> sites/a.conf:1:1") && output.contains("1 error in"), "{output}");
}

/// Each example of the documentation, with a mistake at each of its marks.
#[test]
fn examples_with_a_mistake_are_not_taken_for_another_format() {
    let pages = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs")).unwrap();
    let pages = pages
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|ext| ext == "md"));
    let mut count = 0;
    for page in pages {
        let page = std::fs::read_to_string(page).unwrap();
        for example in page.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next()) {
            let places = example.char_indices().filter(|(_, letter)| "=\"'[]{}\n".contains(*letter));
            for ((place, letter), new) in
                places.flat_map(|place| ["", ":", ";", " {"].map(|new| (place, new)))
            {
                let text = format!("{}{new}{}", &example[..place], &example[place + letter.len_utf8()..]);
                assert_eq!(format_of(&text), None, "{text}");
                count += 1;
            }
        }
    }
    assert!(count > 1000, "{count}");
}
