//! What a route's table says of its handler.

use std::path::Path;

use super::Handler;
use super::file::RouteTable;

/// The keys of the handlers, in the order of [`RouteTable::handlers`].
const KINDS: [&str; 11] = [
    "files",
    "redirect",
    "respond",
    "status",
    "stream",
    "broadcast",
    "tail",
    "delay",
    "info",
    "fastcgi",
    "php",
];

impl RouteTable {
    /// The handlers that are given, each with its key; paths in them are relative to `folder`. There should be one.
    pub(super) fn handlers(self, folder: &Path) -> Vec<(&'static str, Handler)> {
        let Self {
            path: _,
            authorize: _,
            allow_trace: _,
            mut files,
            redirect,
            mut respond,
            status,
            stream,
            broadcast,
            mut tail,
            mut delay,
            info,
            mut fastcgi,
            mut php,
        } = self;
        if let Some(files) = &mut files {
            files.root = folder.join(&files.root);
        }
        let body_files = [
            respond.as_mut().and_then(|respond| respond.body_file.as_mut()),
            delay.as_mut().and_then(|delay| delay.body_file.as_mut()),
        ];
        for file in body_files.into_iter().flatten() {
            *file = folder.join(&*file);
        }
        if let Some(tail) = &mut tail {
            tail.files = tail.files.as_slice().iter().map(|file| folder.join(file)).collect();
        }
        for app in [&mut fastcgi, &mut php].into_iter().flatten() {
            app.resolve(folder);
        }
        let given = [
            files.map(Handler::Files),
            redirect.map(Handler::Redirect),
            respond.map(Handler::Respond),
            status.map(Handler::Status),
            stream.map(Handler::Stream),
            broadcast.map(Handler::Broadcast),
            tail.map(Handler::Tail),
            delay.map(Handler::Delay),
            info.map(Handler::Info),
            fastcgi.map(|fastcgi| Handler::Fastcgi(Box::new(fastcgi))),
            php.map(|php| Handler::Php(Box::new(php))),
        ];
        KINDS.into_iter().zip(given).filter_map(|(kind, handler)| Some((kind, handler?))).collect()
    }

    /// The keys of all handlers, for a message: `a`, `b` or `c`.
    pub(super) fn kinds() -> String {
        let names = KINDS.map(|kind| format!("`{kind}`"));
        let [before @ .., last] = &names;
        format!("{} or {last}", before.join(", "))
    }
}
