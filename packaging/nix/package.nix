# The static program of the release, for `callPackage`.
{ lib, stdenvNoCC, fetchurl }:

let
  version = "@VERSION@";
  archives = {
    x86_64-linux = {
      url = "@URL@/rudy-${version}-x86_64-linux.tar.gz";
      sha256 = "@SHA256_X86_64@";
    };
    aarch64-linux = {
      url = "@URL@/rudy-${version}-aarch64-linux.tar.gz";
      sha256 = "@SHA256_AARCH64@";
    };
  };
  system = stdenvNoCC.hostPlatform.system;
in
stdenvNoCC.mkDerivation {
  pname = "rudy";
  inherit version;

  src = fetchurl (archives.${system} or (throw "Rudy has no program for ${system}"));

  dontConfigure = true;
  dontBuild = true;
  # It is stripped, and has no interpreter whose path could be replaced.
  dontFixup = true;

  installPhase = ''
    mkdir -p $out
    cp -R bin lib share $out/
    substituteInPlace $out/lib/systemd/system/rudy.service --replace-fail /usr/local/bin/ $out/bin/
  '';

  meta = {
    description = "Web server with built-in load testing and benchmarking";
    license = with lib.licenses; [ mit asl20 ];
    platforms = builtins.attrNames archives;
    mainProgram = "rudy";
    sourceProvenance = [ lib.sourceTypes.binaryNativeCode ];
  };
}
