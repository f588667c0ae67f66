{
  description = "Rudy, a web server with built-in load testing and benchmarking";

  inputs.nixpkgs.url = "github:NixOS/nixpkgs/nixos-unstable";

  outputs = { nixpkgs, ... }:
    let
      systems = [ "x86_64-linux" "aarch64-linux" ];
    in
    {
      packages = nixpkgs.lib.genAttrs systems (system: rec {
        rudy = nixpkgs.legacyPackages.${system}.callPackage ./package.nix { };
        default = rudy;
      });
    };
}
