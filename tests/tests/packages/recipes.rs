//! The recipes of package managers: each is run, or evaluated, with the archive of the release.

use rudy_tests::prelude::*;

use crate::registry::assert_works;
use crate::system::release;

const VERSION: &str = env!("CARGO_PKG_VERSION");
const ARCH: &str = std::env::consts::ARCH;

fn archive() -> String {
    format!("rudy-{VERSION}-{ARCH}-linux")
}

/// Copies a recipe, and the archive, whose URL becomes that of the copy.
fn copied(release: &Path, recipe: &str) -> Folder {
    let folder = Folder::new();
    let name = format!("{}.tar.gz", archive());
    folder.write(&name, fs::read(release.join(&name)).expect("the release has an archive"));
    let text = release.read(&format!("recipes/{recipe}"));
    let start = text.find("https://").expect("the recipe has a URL");
    let url = text[start..].split(['\'', '"']).next().and_then(|url| url.split("/rudy-").next());
    let url = url.expect("a part is never missing");
    folder.write(recipe.rsplit('/').next().unwrap_or(recipe), text.replace(url, &format!("file://{folder}")));
    folder
}

#[test]
fn makepkg_makes_a_package_for_arch_linux() {
    let (Some(release), Some(makepkg)) = (release(), program("makepkg")) else { return };
    needs!(is_root());
    let folder = copied(&release, "arch/PKGBUILD");
    chown(&folder, Some(65534), Some(65534)).expect("root gives away folders");
    let mut make = Command::new("setpriv");
    // It refuses root.
    make.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(makepkg).arg("--nodeps");
    make.current_dir(&folder).env("HOME", folder.path()).env("PKGEXT", ".pkg.tar");
    Output::of(&mut make).succeeded();
    let package = format!("rudy-bin-{VERSION}-1-{ARCH}.pkg.tar");
    Output::of(Command::new("tar").args(["--extract", "--file", &package]).current_dir(&folder)).succeeded();
    assert_contains!(folder.read("usr/lib/systemd/system/rudy.service"), "ExecStart=/usr/bin/rudy ");
    assert!(folder.join("etc/rudy/rudy.toml").is_file());
    assert_works(&folder.join("usr/bin/rudy"));
}

fn is_root() -> bool {
    let is_root = geteuid().is_root();
    if !is_root {
        skip("only root can run a program as another user");
    }
    is_root
}

/// What the formula uses of Homebrew. Each file must exist in the archive, in whose folder it runs.
const HOMEBREW: &str = r#"
class Formula
  %i[desc homepage version license depends_on test].each { |name| define_singleton_method(name) { |*| } }
  class << self
    def on_intel = (yield if ARGV[1] == "x86_64")
    def on_arm = (yield if ARGV[1] == "aarch64")
    def url(url = nil) = url ? @url = url : @url
    def sha256(sum = nil) = sum ? @sha256 = sum : @sha256
  end
  %i[bin man1 man5 doc bash_completion zsh_completion fish_completion].each do |place|
    define_method(place) { Place.new }
  end
end
class Place
  def install(files)
    raise "no files" if Array(files).empty?
    Array(files).each { |file| File.exist?(file) or raise "the archive has no #{file}" }
  end
end
load ARGV[0]
Rudy.new.install
puts Rudy.url, Rudy.sha256
"#;

#[test]
fn the_formula_of_homebrew_installs_files_of_the_archive() {
    let (Some(release), Some(ruby)) = (release(), program("ruby")) else { return };
    let folder = copied(&release, "homebrew/rudy.rb");
    let name = archive();
    Output::of(Command::new("tar").args(["-xzf", &format!("{name}.tar.gz")]).current_dir(&folder))
        .succeeded();
    let mut run = Command::new(ruby);
    run.args(["-W0", "-e", HOMEBREW]).arg(folder.join("rudy.rb")).arg(ARCH).current_dir(folder.join(&name));
    assert_eq!(Output::of(&mut run).succeeded(), download(&folder));
}

/// What the package uses of nixpkgs.
const NIX: &str = "with import ./package.nix {
    lib = { licenses = { mit = 0; asl20 = 0; }; sourceTypes.binaryNativeCode = 0; };
    fetchurl = archive: archive;
    stdenvNoCC = { hostPlatform.system = \"ARCH-linux\"; mkDerivation = package: package; };
}; builtins.deepSeq meta \"${src.url}\\n${src.sha256}\\n\"";

#[test]
fn the_expressions_of_nix_are_valid_and_name_the_archive() {
    let (Some(release), Some(nix)) = (release(), program("nix-instantiate")) else { return };
    let folder = copied(&release, "nix/package.nix");
    let instantiate = |arguments: &[&str]| {
        let mut command = Command::new(&nix);
        command.args(["--store", "dummy://"]).args(arguments).current_dir(&folder);
        Output::of(command.env("HOME", folder.path())).succeeded()
    };
    let value = instantiate(&["--eval", "--json", "--expr", &NIX.replace("ARCH", ARCH)]);
    let value: String = serde_json::from_str(&value).expect("it is a string");
    assert_eq!(value, download(&folder));
    instantiate(&["--parse", &release.join("recipes/nix/flake.nix").display().to_string()]);
}

/// The URL of the archive, and its sum.
fn download(folder: &Folder) -> String {
    let name = format!("{}.tar.gz", archive());
    let sum = Output::of(Command::new("sha256sum").arg(folder.join(&name))).succeeded();
    format!("file://{folder}/{name}\n{}\n", sum.split(' ').next().unwrap_or_default())
}
