//! The flags of `rudy precompress`.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use rudy_server::run::Exit;

use super::{Options, coding, run};

/// Compress the files of a folder in advance, for `rudy serve`
///
/// Writes page.html.br, page.html.zst and page.html.gz beside page.html, for text and other files that compress well, where the copy is
/// smaller. Skips hidden files, symbolic links, files below 1 KiB, and copies that are current. Replaces copies atomically, so it can
/// run while Rudy serves the folder. The hidden file .rudy-precompress lists the copies that it has made.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  rudy precompress public                         after each deployment
  rudy precompress public --codings br,gzip --level 9
  rudy precompress public --prune --dry-run       show what would be written and removed

Exit codes: 0 done; 1 a file cannot be read or written; 2 invalid arguments.")]
pub(crate) struct Precompress {
    /// Folder to compress the files of, with its subfolders
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// Codings to write
    #[arg(long, value_name = "LIST", value_enum, value_delimiter = ',', default_value = "br,zstd,gzip")]
    codings: Vec<CodingName>,
    /// Level, up to 11 for br, 19 for zstd and 9 for gzip [default: the highest of each]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=19))]
    level: Option<u8>,
    /// Number of files to compress at the same time [default: one per core]
    #[arg(long, value_name = "N")]
    jobs: Option<NonZeroUsize>,
    /// Remove copies made by earlier runs whose files are gone
    #[arg(long)]
    prune: bool,
    /// Print what would be done, and change nothing
    #[arg(long)]
    dry_run: bool,
}

/// A coding, by its name in `Content-Encoding`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum CodingName {
    Br,
    Zstd,
    Gzip,
}

impl Precompress {
    pub(crate) fn run(self) -> Exit {
        let Self { folder, codings, level, jobs, prune, dry_run } = self;
        let mut names = Vec::new();
        for name in codings {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        let codings = names.into_iter().filter_map(|name| {
            coding(match name {
                CodingName::Br => "br",
                CodingName::Zstd => "zstd",
                CodingName::Gzip => "gzip",
            })
        });
        let (codings, jobs) = (codings.collect(), jobs.map(NonZeroUsize::get));
        run(&Options { folder, codings, level, jobs, dry_run, prune })
    }
}
