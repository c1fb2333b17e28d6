#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Makes posenc's packages of cmake/packaging that can be made on this machine, and builds and runs programs with them:
# tests/packaging/run.sh <directory to build in>. What is not installed is skipped by name.
set -euo pipefail

here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
source_dir="$(cd "$here/../.." && pwd)"
packaging="$source_dir/cmake/packaging"
consumers="$source_dir/tests/consumers"
mkdir -p "$1"
work="$(mktemp --directory "$(cd "$1" && pwd)/packaging.XXXXXX")"
trap 'rm -rf "$work"' EXIT
compiler="${CXX:-c++}"

fail() { echo "$*" >&2; exit 1; }
quietly() { "$@" >"$work/log" 2>&1 || { cat "$work/log"; return 1; } >&2; }
# expect <what> <text> <expected text>
expect() { [[ "$2" == "$3" ]] || fail "$1 is '$2', not '$3'"; }

echo "-- versions and licences"
cmake -D "SOURCE_DIR=$source_dir" -P "$here/check_metadata.cmake"
version_macro() { sed -n "s/^#define POSENC_VERSION_$1 //p" "$source_dir/include/posenc/core/version.hpp" | tr -d '"'; }
version="$(version_macro MAJOR).$(version_macro MINOR).$(version_macro PATCH)$(version_macro SUFFIX)"
deb_version="${version/-/\~}"  # Debian sorts 0.3.0~dev before 0.3.0

# configure <build folder> <cmake argument>...: as a packager does.
configure() {
  local build="$1"
  shift
  quietly cmake -S "$source_dir" -B "$build" -G Ninja -D POSENC_BUILD_TESTS=OFF -D POSENC_BUILD_BENCH=OFF \
    -D POSENC_BUILD_EXAMPLES=OFF "$@"
}

# install_deb <package>: into the empty root $work/root, with dpkg's own database there if this is root.
install_deb() {
  mkdir -p "$work/root/var/lib/dpkg/updates" "$work/root/var/lib/dpkg/info"
  touch "$work/root/var/lib/dpkg/status"
  if ((EUID == 0)); then
    quietly dpkg --root="$work/root" --log=/dev/null --install "$1"
  else
    dpkg-deb --extract "$1" "$work/root"
  fi
}

deb() {
  configure "$work/deb"
  quietly cmake --build "$work/deb" --target package
  local package="$work/deb/libposenc-dev_${deb_version}_all.deb"
  field() { dpkg-deb --field "$package" "$1"; }
  expect "the package" "$(field Package)" libposenc-dev
  expect "its version" "$(field Version)" "$deb_version"
  expect "its architecture" "$(field Architecture)" all
  expect "what it depends on" "$(field Depends)" ""
  expect "what it recommends" "$(field Recommends)" "libeigen3-dev (>= 3.4)"

  install_deb "$package"
  local usr="$work/root/usr"
  diff --recursive --exclude '*.md' "$source_dir/include/posenc" "$usr/include/posenc"
  cmp "$source_dir/LICENSE" "$usr/share/doc/libposenc-dev/copyright"
  gzip --decompress --stdout "$usr/share/doc/libposenc-dev/changelog.gz" | grep --quiet --fixed-strings "($deb_version)"
  local folders
  folders="$(cd "$usr" && find . -mindepth 1 -maxdepth 3 -type d -not -path './include/posenc/*' | LC_ALL=C sort | paste -sd ' ')"
  expect "the package's folders" "$folders" \
    "./include ./include/posenc ./share ./share/cmake ./share/cmake/posenc ./share/doc ./share/doc/libposenc-dev ./share/pkgconfig"
  if grep --recursive --fixed-strings --files-with-matches -e "$work" -e "$source_dir" "$usr"; then
    fail "these files name folders of the machine that made the package"
  fi

  quietly cmake -S "$here/deb" -B "$work/app" -G Ninja -D CMAKE_PREFIX_PATH="$usr" -D POSENC_ROOT="$work/root" \
    -D CMAKE_CXX_COMPILER="$compiler"
  quietly cmake --build "$work/app"
  "$work/app/app"

  local flags
  export PKG_CONFIG_PATH="$usr/share/pkgconfig"
  expect "the version of posenc.pc" "$(pkg-config --modversion posenc)" "$version"
  [[ "$(pkg-config --cflags posenc)" == *"-isystem /usr/include/eigen3"* ]] || fail "posenc.pc does not name Debian's Eigen"
  read -ra flags <<<"$(pkg-config --cflags posenc-core)"
  "$compiler" -std=c++20 "${flags[@]}" "$consumers/without_eigen/main.cpp" -o "$work/without_eigen"
  "$work/without_eigen"

  if ((EUID == 0)); then
    quietly dpkg --root="$work/root" --log=/dev/null --purge libposenc-dev
    [[ ! -e "$usr" ]] || fail "the package leaves files behind: $(find "$usr")"
  fi
}

# The package must not name an Eigen that other machines do not have.
deb_with_other_eigen() {
  local eigen
  eigen="$(sed -n 's/^Eigen3_DIR:PATH=//p' "$work/deb/CMakeCache.txt")"
  mkdir -p "$work/other/include" "$work/other/share/eigen3"
  ln -s /usr/include/eigen3 "$work/other/include/eigen3"
  cp -r "$eigen" "$work/other/share/eigen3/cmake"
  configure "$work/deb-other" -D Eigen3_DIR="$work/other/share/eigen3/cmake"
  if cmake --build "$work/deb-other" --target package >"$work/log" 2>&1; then
    fail "a package was made that names the Eigen of $work"
  fi
  grep --quiet "where only this machine has it" "$work/log" || { cat "$work/log" >&2; return 1; }
}

# meson_project <name> <meson argument>...: sets up a project with posenc.wrap, whose sources are a copy of the repository.
meson_project() {
  local project="$work/$1"
  shift
  mkdir -p "$project/subprojects"
  cp "$here/meson/"* "$project/"
  cp -r "$consumers/app" "$consumers/without_eigen" "$consumers/model_files" "$project/"
  cp -r "$packaging/meson/packagefiles" "$project/subprojects/"
  sed "s|<path or url of your copy of posenc>|file://$work/posenc|" "$packaging/meson/posenc.wrap" >"$project/subprojects/posenc.wrap"
  CXX="$compiler" quietly meson setup "$@" "$project/build" "$project"
}

meson_wrap() {
  "$source_dir/tests/support/copy_repository.sh" "$work/posenc"

  meson_project meson
  quietly meson test -C "$work/meson/build"
  grep '^Ok' "$work/log"

  # Without Eigen there is posenc-core alone, here with two programs.
  meson_project meson-core -D posenc:eigen=disabled -D posenc=auto
  grep --quiet 'Dependency posenc-core found: YES' "$work/log" && grep --quiet 'Build targets in project: 2$' "$work/log" ||
    { cat "$work/log" >&2; return 1; }

  # A wrap of one version and sources of another.
  local header="$work/posenc/include/posenc/core/version.hpp"
  sed -i 's/VERSION_PATCH .*/VERSION_PATCH 99/' "$header"
  git -C "$work/posenc" -c user.name=posenc -c user.email=posenc@localhost commit --quiet --all --message 'other version'
  if (meson_project meson-other) 2>"$work/error"; then
    fail "meson.build accepts sources of another version"
  fi
  grep --quiet 'this meson.build is for posenc' "$work/error" || { cat "$work/error" >&2; return 1; }
}

if command -v dpkg-deb >/dev/null && [[ -d /usr/include/eigen3 ]]; then
  echo "-- Debian package"
  (deb)
  echo "-- Debian package, with an Eigen that is not Debian's"
  deb_with_other_eigen
else
  echo "-- Debian package: skipped, there is no dpkg-deb or no libeigen3-dev"
fi

if command -v meson >/dev/null; then
  echo "-- Meson's wrap"
  meson_wrap
else
  echo "-- Meson's wrap: skipped, there is no meson"
fi
