#!/bin/sh
# Installs Rudy @VERSION@: the program, its manual pages and completions. Root is not needed.
#
#   RUDY_PREFIX   where to install; by default /usr/local for root, and ~/.local for other users
#   RUDY_URL      where the files of the release are
#   RUDY_KEY      the public key of minisign with which the files must be signed
set -eu

version=@VERSION@
url=${RUDY_URL:-@URL@}

fail() {
    echo "install.sh: $1" >&2
    exit 1
}

download() {
    if command -v curl >/dev/null; then
        curl --fail --location --silent --show-error --output "$1" "$url/$1"
    elif command -v wget >/dev/null; then
        wget --quiet --output-document "$1" "$url/$1"
    else
        fail "curl or wget is needed to download Rudy: install one of them"
    fi || fail "cannot download $url/$1; RUDY_URL names the folder with the files of the release"
}

verify_signature() {
    command -v minisign >/dev/null || fail "minisign is needed to verify the signature: install it, or unset RUDY_KEY"
    download SHA256SUMS.minisig
    minisign -Vq -P "$RUDY_KEY" -m SHA256SUMS || fail "SHA256SUMS is not signed with the key in RUDY_KEY: nothing was installed"
}

# Functions and a last line that calls them: of a script that is cut off while it arrives, nothing runs.
main() {
    system=$(uname -s)
    [ "$system" = Linux ] || fail "Rudy runs on Linux, not on $system"
    processor=$(uname -m)
    case $processor in
        x86_64) ;;
        aarch64 | arm64) processor=aarch64 ;;
        *) fail "there is no program for the processor $processor, only for x86_64 and aarch64: build Rudy from source" ;;
    esac
    if [ -n "${RUDY_PREFIX:-}" ]; then
        prefix=$RUDY_PREFIX
    elif [ "$(id -u)" = 0 ]; then
        prefix=/usr/local
    else
        prefix=$HOME/.local
    fi
    # `mkdir` succeeds for a folder that exists, also if it is read-only.
    { mkdir -p "$prefix/bin" && [ -w "$prefix/bin" ]; } 2>/dev/null ||
        fail "cannot write to $prefix/bin: set RUDY_PREFIX to a folder of yours, such as RUDY_PREFIX=\$HOME/.local"

    folder=$(mktemp -d)
    trap 'rm -rf "$folder"' EXIT
    cd "$folder"
    archive=rudy-$version-$processor-linux.tar.gz
    download SHA256SUMS
    [ -z "${RUDY_KEY:-}" ] || verify_signature
    download "$archive"
    grep -F "  $archive" SHA256SUMS >sum || fail "$url/SHA256SUMS has no line for $archive"
    sha256sum -c sum >/dev/null 2>&1 || fail "$archive does not have the sum in SHA256SUMS: nothing was installed. Try again later"

    tar -xzf "$archive"
    cp -R "rudy-$version-$processor-linux/share" "$prefix/"
    # A running program cannot be written to, but replaced.
    cp "rudy-$version-$processor-linux/bin/rudy" "$prefix/bin/.rudy.new"
    mv -f "$prefix/bin/.rudy.new" "$prefix/bin/rudy"
    echo "installed $("$prefix/bin/rudy" --version) in $prefix/bin"
    case :$PATH: in
        *":$prefix/bin:"*) echo "To serve a folder: rudy serve FOLDER" ;;
        *) echo "Add $prefix/bin to PATH, or run $prefix/bin/rudy" ;;
    esac
}

main
