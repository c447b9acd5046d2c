#!/bin/sh
# Unpacks a release archive of altgrad: sh install.sh ARCHIVE [DIR]. DIR is ~/.local/opt unless given. Compares the archive with the
# checksum beside it, ARCHIVE.sha256, and writes nothing outside of DIR.
set -eu
archive=${1:?"usage: sh install.sh ARCHIVE [DIR]"}
dir=${2:-$HOME/.local/opt}
name=$(basename "$archive" .tar.gz)
(cd "$(dirname "$archive")" && sha256sum --check --quiet "$name.tar.gz.sha256")
if [ -e "$dir/$name" ]; then
    echo "error: $dir/$name exists already; remove it, or name another folder" >&2
    exit 1
fi
mkdir -p "$dir"
tar -xzf "$archive" -C "$dir"
echo "unpacked: $dir/$name"
echo "next: export PATH=\"$dir/$name:\$PATH\"; altgrad demo"
