//! A copy of the example app `weblog`, with settings of its own.

use std::fs;
use std::path::{Path, PathBuf};

use crate::{Files as _, Folder, Server, weblog};

/// The folder of a weblog.
pub struct Weblog {
    folder: Folder,
}

/// The folder of the example.
fn example() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/weblog")
}

impl Weblog {
    /// The credentials of the author in the example (RFC 7617 §2): `author:change-me`.
    pub const AUTHOR: &str = "Authorization: Basic YXV0aG9yOmNoYW5nZS1tZQ==";

    /// Copies the example. `url` is where its readers find it. `sidebar` is a service with a list of books, and settings of its polls.
    pub fn new(url: &str, sidebar: Option<(&str, &str)>) -> Self {
        let folder = Folder::new();
        for name in ["templates", "posts", "images", "static"] {
            copy(&example().join(name), &folder.join(name));
        }
        let sidebar = sidebar.map_or(String::new(), |(service, more)| {
            format!("[[sidebar]]\ntitle = 'Reading'\nurl = '{service}'\nitems = '/books'\ntext = '/title'\n{more}\n")
        });
        let settings = format!(
            "title = 'Notes'\ndescription = 'On servers'\nauthor = 'The author'\nurl = '{url}'\n{sidebar}"
        );
        folder.write("weblog.toml", settings);
        Self { folder }
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Saves a post.
    pub fn save(&self, name: &str, text: &str) {
        self.path().join("posts").write(name, text);
    }

    /// Serves it with Rudy, which starts it, on this address of 127.0.0.1.
    pub fn serve(&self, listen: &str) -> Server {
        let app =
            format!("fastcgi = {{ command = ['{}', '{}'] }}", weblog().display(), self.path().display());
        let users = example().join("users");
        let files = ["static", "images"].map(|name| {
            format!("[[site.route]]\npath = '/{name}/*'\nfiles = '{}/{name}'\n", self.path().display())
        });
        Server::config(&format!(
            "listen = ['{listen}']\n[[site]]\n{}[[site.route]]\npath = '/admin/*'\nbasic_auth = '{}'\n{app}\n\
             [[site.route]]\npath = '/*'\n{app}\n",
            files.concat(),
            users.display(),
        ))
    }

    /// Serves it with the configuration of the example, which has an address with TLS besides.
    pub fn serve_as_shipped(&self) -> Server {
        let text = fs::read_to_string(example().join("rudy.toml")).expect("the example has this file");
        let text = [
            ("127.0.0.1:8080", "127.0.0.1:0"),
            ("127.0.0.1:8443", "127.0.0.1:0"),
            ("../../target/release/weblog", &*weblog().to_string_lossy()),
            ("../../target/weblog-cache", "cache"),
        ]
        .iter()
        .fold(text, |text, (from, to)| text.replace(from, to));
        let path = self.path().join("rudy.toml");
        fs::write(&path, text).expect("a temp folder can be written");
        fs::copy(example().join("users"), self.path().join("users")).expect("the example has this file");
        let state = self.path().join("state");
        Server::build().env("STATE_DIRECTORY", state).arg("--config").arg(path).start()
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir(to).expect("the folder is new");
    for file in fs::read_dir(from).expect("the example has this folder") {
        let file = file.expect("the folder can be read").path();
        let name = file.file_name().expect("a file has a name");
        fs::copy(&file, to.join(name)).expect("a temp folder can be written");
    }
}
