# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash

# What all scripts here share: paths, messages, packages. Source it; it starts nothing.

set -euo pipefail

TOP=$(realpath "$(dirname "${BASH_SOURCE[0]}")/..")
BUILD=$TOP/build            # all that is generated
SOURCES=$BUILD/sources      # all that is downloaded
ME=${0##*/}

# systemd's build asks for "python3" with jinja2: that is the distribution's, whatever else is installed.
export PATH=/usr/sbin:/usr/bin:/sbin:/bin:$PATH
export LC_ALL=C.UTF-8

say() {
    printf '%s: %s\n' "$ME" "$*"
}

# Say why, and end.
fail() {
    printf '%s: error: %s\n' "$ME" "$*" >&2
    exit 1
}

# The same, for a wrong command line.
fail_usage() {
    printf "%s: error: %s (try '%s --help')\n" "$ME" "$*" "$0" >&2
    exit 2
}

# A step that cannot run here: skip STEP REASON
skip() {
    printf '%s: skipped: %s: %s\n' "$ME" "$1" "$2"
}

# Run a command with its output in a file, show the end of it if the command fails: run_logged LOG COMMAND…
# Returns the command's exit status.
run_logged() {
    local log=$1 rc=0
    shift
    mkdir -p "$(dirname "$log")"
    "$@" >"$log" 2>&1 </dev/null || rc=$?
    if [ "$rc" -ne 0 ]; then
        tail -n 30 "$log" >&2
        printf '%s: "%s" ended with %s, all of its output is in %s\n' "$ME" "${*:1:3}" "$rc" "$log" >&2
    fi
    return "$rc"
}

# Run apt, with no other of our scripts at it meanwhile: apt_alone COMMAND…
apt_alone() {
    local lock rc=0

    exec {lock}>"$BUILD/apt.lock"
    flock "$lock"
    run_logged "$BUILD/apt.log" "$@" || rc=$?
    exec {lock}>&-
    return "$rc"
}

# Install those of the packages that are missing: apt_install PACKAGE…
apt_install() {
    local package missing=()

    for package in "$@"; do
        [ "$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || missing+=("$package")
    done
    [ ${#missing[@]} -gt 0 ] || return 0

    [ "$(id -u)" -eq 0 ] || fail "packages are missing and only root can install them: apt-get install ${missing[*]}"

    say "installing ${missing[*]}"
    local install=(env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "${missing[@]}")
    # The lists of a fresh machine are empty, those of an old one may name files that are gone.
    if ! apt_alone "${install[@]}" 2>/dev/null; then
        apt_alone apt-get update || fail "cannot read the package lists"
        apt_alone "${install[@]}" || fail "cannot install ${missing[*]}"
    fi
}

# apt_sources TYPE SUITE LIST SOURCES: turn the machine's own apt sources into entries of TYPE (deb or deb-src), the
# one-line ones in the file LIST and the deb822 stanzas in the file SOURCES. If SUITE is not empty: of that release
# instead of the machine's own (bookworm-updates becomes trixie-updates, say), and nothing of other suites. Which
# architectures they are limited to is left out.
apt_sources() {
    local SOURCE_LIST SOURCE_PARTS own variables translate
    eval "$(apt-config shell SOURCE_LIST Dir::Etc::sourcelist/f SOURCE_PARTS Dir::Etc::sourceparts/d)"
    own=$(sed -nE 's/^VERSION_CODENAME="?([^"]*)"?$/\1/p' /etc/os-release)
    variables=(-v type="$1" -v suite="$2" -v own="$own")

    # A suite as it is wanted; empty: not wanted.
    translate='
        function translate(word) {
            if (!suite)
                return word
            if (word == own || index(word, own "-") == 1)
                return suite substr(word, length(own) + 1)
            return ""
        }'

    # Either may be missing.
    find "$SOURCE_LIST" "$SOURCE_PARTS" -maxdepth 1 -name '*.list' -exec awk "${variables[@]}" "$translate"'
        $1 ~ /^deb(-src)?$/ && !/cdrom:/ {
            sub(/#.*/, "")
            sub(/arch=[^] \t]*/, "")
            sub(/\[[ \t]*\]/, "")
            $1 = type
            i = 2
            if ($i ~ /^\[/)
                while ($(i++) !~ /\]$/ && i < NF)
                    ;
            $(i + 1) = translate($(i + 1))
            if ($(i + 1) != "" && !seen[$0]++)
                print
        }' {} + >"$3" 2>/dev/null || true

    # An empty line ends a stanza, as does the end of a file. A line that begins with a blank continues its field.
    find "$SOURCE_PARTS" -maxdepth 1 -name '*.sources' -exec awk "${variables[@]}" "$translate"'
        function end_stanza() {
            if (types && enabled && suites != "") {
                stanza = stanza "Suites:" suites "\n"
                if (!seen[stanza]++)
                    print stanza
            }
            stanza = suites = ""
            types = 0
            enabled = 1
        }
        FNR == 1                  { end_stanza() }
        /^#/                      { next }
        /^[[:space:]]*$/          { end_stanza(); next }
        /^[^[:space:]]/           { field = tolower($0); sub(/:.*/, "", field) }
        field == "architectures"  { next }
        field == "suites" {
            sub(/^[^[:space:]]*:/, "")
            for (i = 1; i <= NF; i++)
                if (translate($i) != "")
                    suites = suites " " translate($i)
            next
        }
        field == "types"          { $0 = "Types: " type; types = 1 }
        tolower($0) ~ /^enabled:[[:space:]]*(no|false|without|off|disable|0)[[:space:]]*$/ { enabled = 0 }
                                  { stanza = stanza $0 "\n" }
        END                       { end_stanza() }' {} + >"$4" 2>/dev/null || true
}

# apt_private [--suite SUITE] [--arch ARCHITECTURE] apt-get|apt-cache ARGUMENT…: with entries, lists and caches of our
# own, for source packages, or for binary packages of ARCHITECTURE; of the release SUITE (trixie, say), or of the
# machine's own. The machine's apt configuration is read, never changed.
apt_private() {
    local suite='' type=deb-src options=(-o APT::Sandbox::User=root) dir command
    while [[ $1 == --* ]]; do
        case $1 in
            --suite) suite=$2 ;;
            --arch) type=deb; options+=(-o "APT::Architecture=$2" -o "APT::Architectures=$2") ;;
            *) fail "apt_private: unknown option $1" ;;
        esac
        shift 2
    done
    command=$1
    shift

    dir=$SOURCES/apt/${suite:-own}-$type
    mkdir -p "$dir/sources.d" "$dir/lists/partial" "$dir/cache/archives/partial"
    apt_sources "$type" "$suite" "$dir/sources.d/machine.list" "$dir/sources.d/machine.sources"
    "$command" -o Dir::Etc::sourcelist=/dev/null -o Dir::Etc::sourceparts="$dir/sources.d" \
        -o Dir::State::lists="$dir/lists" -o Dir::Cache="$dir/cache" "${options[@]}" "$@"
}
