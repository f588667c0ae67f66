# The formula for a tap: `brew install TAP/rudy`.
class Rudy < Formula
  desc "Web server with built-in load testing and benchmarking"
  homepage "@URL@"
  version "@VERSION@"
  license any_of: ["MIT", "Apache-2.0"]

  depends_on :linux

  on_intel do
    url "@URL@/rudy-@VERSION@-x86_64-linux.tar.gz"
    sha256 "@SHA256_X86_64@"
  end
  on_arm do
    url "@URL@/rudy-@VERSION@-aarch64-linux.tar.gz"
    sha256 "@SHA256_AARCH64@"
  end

  def install
    bin.install "bin/rudy"
    man1.install Dir["share/man/man1/*"]
    man5.install Dir["share/man/man5/*"]
    doc.install Dir["share/doc/rudy/*"]
    bash_completion.install "share/bash-completion/completions/rudy"
    zsh_completion.install "share/zsh/site-functions/_rudy"
    fish_completion.install "share/fish/vendor_completions.d/rudy.fish"
  end

  test do
    assert_equal "rudy #{version}\n", shell_output("#{bin}/rudy --version")
  end
end
