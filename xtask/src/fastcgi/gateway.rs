//! Rudy or nginx, each before a php-fpm of its own.

use std::process::Command;

use super::fpm::{Fpm, HELLO};
use super::{CHILDREN, WAITING};
use crate::Outcome;
use crate::bench::server::{Kind, Server, free_address, nginx_configuration, write};

/// The peer's configuration.
const NGINX_CONFIGURATION: &str = "labs/peers/nginx-fastcgi.conf";

/// A running gateway. It ends before its php-fpm, when this is dropped.
pub(super) struct Gateway {
    pub(super) server: Server,
    pub(super) fpm: Fpm,
}

impl Gateway {
    /// Starts both, and waits until a script has answered.
    pub(super) fn start(kind: Kind) -> Outcome<Self> {
        let fpm = Fpm::start()?;
        let (folder, address) = (fpm.folder(), free_address()?);
        let (socket, scripts) = (fpm.socket(), folder.join("www"));
        let mut command = Command::new(kind.program());
        if kind == Kind::Rudy {
            let text = format!(
                "listen = [\"{address}\"]\n[[site]]\n[[site.route]]\npath = \"*.php\"\n[site.route.fastcgi]\n\
                 address = \"unix:{socket}\"\nroot = \"{scripts}\"\nsplit = \".php\"\nconnections = {CHILDREN}\n\
                 queue = {WAITING}\nqueue_time = \"1h\"\nanswer_time = \"1h\"\n",
                socket = socket.display(),
                scripts = scripts.display(),
            );
            let configuration = folder.join("rudy.toml");
            write(&configuration, &text)?;
            command.args(["serve", "--config"]).arg(configuration);
        } else {
            let app = ("# app", format!("    server unix:{};", socket.display()));
            let configuration = folder.join("nginx.conf");
            write(&configuration, &nginx_configuration(NGINX_CONFIGURATION, address, &[app])?)?;
            command.arg("-c").arg(configuration).arg("-p").arg(folder);
        }
        let server = Server::run(kind, address, &mut command, folder, HELLO)?;
        Ok(Self { server, fpm })
    }

    pub(super) fn name(&self) -> &'static str {
        self.server.kind.name()
    }
}
