#!/bin/sh
# Installs memory_tencentdb beside Hermes: a private environment for the worker, and a link to the provider in the
# host's plugin folder. Safe to run again; never needs sudo; changes nothing that it did not put there itself.
set -eu
umask 077

NAME=memory_tencentdb
CHECKOUT=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd -P)
ROOT=${MEMORY_TENCENTDB_ROOT:-${HOME:?HOME is not set; set it or MEMORY_TENCENTDB_ROOT}/.memory-tencentdb}
HERMES=${HERMES_HOME:-${HOME:-}/.hermes}
MARKER=.installed-by-memory-tencentdb
action=install
enable=no
purge=no
extras=worker
local=,local

usage() {
    cat <<'TEXT'
usage: ./install.sh [--hermes-home DIR] [--enable] [--extras a,b] [--no-local]
       ./install.sh --check     [--hermes-home DIR]
       ./install.sh --uninstall [--hermes-home DIR] [--purge]

  --enable       also set memory.provider in the host's config.yaml (with a backup, comments kept)
  --extras a,b   further optional parts of the worker
  --no-local     leave out the offline embedding model (some 90 MB): memories are found by words only, unless an
                 embedding endpoint is configured
  --check        say what is installed, enabled and working; exit 0 when all is well, 6 when not
  --uninstall    stop the worker, remove the link and the setting; memories stay where they are
  --purge        with --uninstall: also remove the worker's environment and this profile's memories

environment: MEMORY_TENCENTDB_ROOT (~/.memory-tencentdb), HERMES_HOME (~/.hermes), PYTHON (3.11 or newer)
TEXT
}

say() { printf '%s\n' "$*"; }
fail() {
    printf 'install.sh: %s\n' "$*" >&2
    exit 1
}

while [ $# -gt 0 ]; do
    case $1 in
        --hermes-home) [ $# -ge 2 ] || fail "--hermes-home needs a directory"; HERMES=$2; shift ;;
        --hermes-home=*) HERMES=${1#*=} ;;
        --extras) [ $# -ge 2 ] || fail "--extras needs names"; extras=worker,$2; shift ;;
        --extras=*) extras=worker,${1#*=} ;;
        --enable) enable=yes ;;
        --no-local) local= ;;
        --check) action=check ;;
        --uninstall) action=uninstall ;;
        --purge) purge=yes ;;
        -h | --help) usage; exit 0 ;;
        *) usage >&2; fail "unknown argument: $1" ;;
    esac
    shift
done
[ "$purge" = no ] || [ "$action" = uninstall ] || fail "--purge goes with --uninstall"
case $HERMES in /*) ;; *) HERMES=$(pwd)/$HERMES ;; esac
case $ROOT in /*) ;; *) ROOT=$(pwd)/$ROOT ;; esac

VENV=$ROOT/venv
SHORTCUT=${HOME:-}/.local/bin/memory-tencentdb
LINK=$HERMES/plugins/$NAME
PROFILE_HOME=$HERMES/$NAME

# ---------------------------------------------------------------------------------------------------- Python

new_enough() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; }

# A service or `env -i` may have a PATH without the places where people keep Python.
search_path() { printf '%s' "${PATH:-/usr/bin:/bin}:/usr/local/bin:/opt/homebrew/bin:${HOME:-}/.local/bin:${HOME:-}/.pyenv/shims"; }

find_program() { (PATH=$(search_path) && export PATH && command -v "$1") 2>/dev/null; }

find_python() {
    for candidate in ${PYTHON:+"$PYTHON"} python3.13 python3.12 python3.11 python3; do
        found=$(find_program "$candidate") || continue
        if new_enough "$found"; then
            printf '%s\n' "$found"
            return 0
        fi
    done
    return 1
}

make_venv() {
    if [ -x "$VENV/bin/python" ] && new_enough "$VENV/bin/python"; then
        return 0
    fi
    if [ -e "$VENV" ]; then
        [ -f "$VENV/pyvenv.cfg" ] || fail "$VENV exists and is no Python environment; move it away or set MEMORY_TENCENTDB_ROOT"
        say "the environment $VENV no longer works (its Python is gone): making it again"
    fi
    mkdir -p "$ROOT"
    python=$(find_python || true)
    if [ -n "$python" ] && "$python" -m venv --clear "$VENV" >/dev/null 2>&1 && "$VENV/bin/python" -m pip --version >/dev/null 2>&1; then
        say "made $VENV with $python"
        return 0
    fi
    uv=$(find_program uv) || fail "$(no_python "$python")"
    "$uv" venv --quiet --clear --python "${python:-3.12}" "$VENV"
    say "made $VENV with uv${python:+ and $python}"
}

no_python() {
    if [ -n "$1" ]; then
        printf '%s' "$1 cannot make environments (its venv or ensurepip module is missing; on Debian: apt install python3-venv), and uv is not installed"
    else
        printf '%s' "no Python 3.11 or newer found (tried \$PYTHON, python3.13 to python3.11, python3), and uv is not installed"
    fi
}

install_package() {
    say "installing the worker into $VENV (a minute or two the first time)"
    requirement="${CHECKOUT}[${extras}${local}]"
    if "$VENV/bin/python" -m pip --version >/dev/null 2>&1; then
        PIP_DISABLE_PIP_VERSION_CHECK=1 "$VENV/bin/python" -m pip install --quiet --upgrade "$requirement"
    else
        uv=$(find_program uv) || fail "$VENV has no pip, and uv is not installed"
        "$uv" pip install --quiet --python "$VENV/bin/python" --reinstall-package memory-tencentdb "$requirement"
    fi
}

package_dir() {
    "$VENV/bin/python" -c 'import sysconfig; print(sysconfig.get_paths()["purelib"] + "/memory_tencentdb")'
}

# ---------------------------------------------------------------------------------------------------- worker

# Ends the workers of this profile and of the standalone home; the host starts its own again when it needs it. Called
# before and after the files are replaced: a host may start one of the old version in between.
stop_workers() {
    [ -x "$VENV/bin/memory-tencentdb" ] || return 0
    for home in "$PROFILE_HOME" "$ROOT/home"; do
        [ -f "$home/worker.json" ] || continue
        if "$VENV/bin/memory-tencentdb" stop --home "$home" >/dev/null 2>&1; then
            say "stopped the worker of $home"
        fi
    done
}

# -------------------------------------------------------------------------------------------------- shortcut

# A link on PATH, where the user's own programs have their place already. The link itself is the record: only one that
# leads into our environment is ever changed or removed.
make_shortcut() {
    [ -n "${HOME:-}" ] && [ -d "$HOME/.local/bin" ] || return 0
    if exists "$SHORTCUT" && ! is_our_shortcut; then
        say "left $SHORTCUT as it is: this script did not put it there"
        return 0
    fi
    ln -sfn "$VENV/bin/memory-tencentdb" "$SHORTCUT"
    case ":${PATH:-}:" in
        *":$HOME/.local/bin:"*) say "  shortcut:  memory-tencentdb ($SHORTCUT is on your PATH)" ;;
        *) say "  shortcut:  $SHORTCUT ($HOME/.local/bin is not on your PATH)" ;;
    esac
}

is_our_shortcut() { [ -L "$SHORTCUT" ] && [ "$(readlink "$SHORTCUT")" = "$VENV/bin/memory-tencentdb" ]; }

remove_shortcut() {
    is_our_shortcut || return 0
    rm -f -- "$SHORTCUT"
    say "removed $SHORTCUT"
}

# In a form that a shell takes as one word.
quoted() { printf "'%s'" "$(printf '%s' "$1" | sed "s/'/'\\\\''/g")"; }

# ------------------------------------------------------------------------------------------------------ link

is_ours() {
    if [ -L "$1" ]; then
        [ ! -e "$1" ] || { [ -f "$1/plugin.yaml" ] && grep -q "^name: $NAME\$" "$1/plugin.yaml"; } || return 1
        case $(readlink "$1") in */$NAME) return 0 ;; *) return 1 ;; esac
    fi
    [ -f "$1/$MARKER" ] && [ -f "$1/plugin.yaml" ] && grep -q "^name: $NAME\$" "$1/plugin.yaml"
}

exists() { [ -e "$1" ] || [ -L "$1" ]; }

# Whether the host has cloned this checkout into its plug-in folder itself (hermes plugins install).
is_this_checkout() { [ -d "$LINK" ] && [ "$(CDPATH='' cd -- "$LINK" && pwd -P)" = "$CHECKOUT" ]; }

check_link_place() {
    if exists "$LINK" && ! is_ours "$LINK" && ! is_this_checkout; then
        fail "$LINK exists and was not put there by this script; move it away first (a plug-in installed by 'hermes plugins install' is removed by 'hermes plugins remove $NAME')"
    fi
}

remove_link() {
    if [ -L "$LINK" ]; then rm -f -- "$LINK"; else rm -rf -- "$LINK"; fi
}

link_provider() {
    target=$(package_dir)
    if is_this_checkout; then
        say "the provider is this checkout, put there by the host: $LINK"
        return 0
    fi
    if [ -L "$LINK" ] && [ "$(readlink "$LINK")" = "$target" ]; then
        say "provider is linked: $LINK"
        return 0
    fi
    mkdir -p "$HERMES/plugins"
    if exists "$LINK"; then remove_link; fi
    if ln -s "$target" "$LINK" 2>/dev/null; then
        say "linked $LINK -> $target"
    else # a file system without links
        cp -R "$target" "$LINK"
        : >"$LINK/$MARKER"
        say "copied the provider to $LINK"
    fi
}

host_config() { "$VENV/bin/python" -m memory_tencentdb_worker.shipping.hermes_config "$1" "$HERMES/config.yaml"; }

# --------------------------------------------------------------------------------------------------- actions

install_all() {
    check_link_place
    stop_workers
    make_venv
    install_package
    stop_workers
    link_provider
    if [ "$enable" = yes ]; then
        host_config enable || fail "the provider is installed, but not enabled"
    elif [ "$(host_config show 2>/dev/null || true)" != "$NAME" ]; then
        say "not enabled yet: run './install.sh --enable', or 'hermes config set memory.provider $NAME'"
    fi
    say "done: version $("$VENV/bin/python" -c 'from memory_tencentdb.protocol import VERSION; print(VERSION)')"
    say "  memories:  $PROFILE_HOME"
    say "  command:   $(quoted "$VENV/bin/memory-tencentdb") status --home $(quoted "$PROFILE_HOME")"
    say "             (the worker sleeps until it is needed: Hermes wakes it, and so does 'start' in place of 'status')"
    make_shortcut
    say "  model:     the host's own, unless you configure another; without any it works offline, with rules"
}

report() { # ok|bad text
    say "  [$1] $2"
    [ "$1" = ok ] || healthy=no
}

check_all() {
    healthy=yes
    say "memory_tencentdb"
    if [ -x "$VENV/bin/python" ] && version=$("$VENV/bin/python" -c 'from memory_tencentdb.protocol import VERSION; print(VERSION)' 2>/dev/null); then
        report ok "worker $version in $VENV"
        if "$VENV/bin/python" -c 'import apsw, fastapi, httptools, httpx, numpy, pydantic, uvicorn, yaml, memory_tencentdb_worker.app' 2>/dev/null; then
            report ok "the worker's parts can be loaded"
        else
            report bad "the worker cannot be loaded: run './install.sh' again"
        fi
    else
        report bad "the worker is not installed in $VENV: run './install.sh'"
    fi
    if ! exists "$LINK"; then
        report bad "the provider is not linked at $LINK"
    elif [ -f "$LINK/__init__.py" ] && [ -f "$LINK/plugin.yaml" ]; then
        report ok "the provider is at $LINK"
    else
        report bad "$LINK leads nowhere: run './install.sh' again"
    fi
    provider=$(host_config show 2>/dev/null || true)
    if [ "$provider" = "$NAME" ]; then
        report ok "enabled in $HERMES/config.yaml"
    else
        report bad "not enabled: memory.provider in $HERMES/config.yaml is ${provider:-not set}"
    fi
    [ "$healthy" = yes ] || exit 6
}

uninstall_all() {
    stop_workers
    if exists "$LINK"; then
        if is_ours "$LINK"; then
            remove_link
            say "removed $LINK"
        else
            say "left $LINK as it is: this script did not put it there"
        fi
    fi
    if [ -f "$HERMES/config.yaml" ] && [ -x "$VENV/bin/python" ]; then
        host_config disable || say "remove memory.provider from $HERMES/config.yaml by hand"
    fi
    if [ "$purge" = no ]; then
        if exists "$SHORTCUT" && is_our_shortcut; then say "the command $SHORTCUT is kept"; fi
        if [ -d "$PROFILE_HOME" ]; then say "memories are kept in $PROFILE_HOME"; fi
        if [ -d "$VENV" ]; then say "the worker's environment is kept in $VENV"; fi
        if [ -d "$PROFILE_HOME" ] || [ -d "$VENV" ]; then say "'./install.sh --uninstall --purge' removes them"; fi
        return 0
    fi
    purge_all
}

purge_all() {
    if ! exists "$PROFILE_HOME" && ! exists "$VENV" && ! is_our_shortcut && ! key_is_kept; then
        say "nothing to remove"
        return 0
    fi
    remove_runtime_files
    remove_key
    remove_shortcut
    for path in "$PROFILE_HOME" "$VENV"; do
        exists "$path" || continue
        say "removing $path"
        rm -rf -- "$path"
    done
    remove_old_backups
    if [ -d "$ROOT/home" ]; then say "the standalone home $ROOT/home is kept; remove it by hand"; fi
    rmdir -- "$ROOT" 2>/dev/null || true
}

key_is_kept() { [ -f "$HERMES/.env" ] && grep -q '^TDAI_LLM_API_KEY=' "$HERMES/.env"; }

# The wizard put the model's key there. No copy is made: it is a secret.
remove_key() {
    key_is_kept || return 0
    kept=$(mktemp "$HERMES/.env.XXXXXX")
    grep -v '^TDAI_LLM_API_KEY=' "$HERMES/.env" >"$kept" || true
    cat "$kept" >"$HERMES/.env" # the file itself stays: its mode, owner and links are the host's
    rm -f -- "$kept"
    say "removed TDAI_LLM_API_KEY from $HERMES/.env"
}

# Socket and start-up notes of this profile's data directory; other homes may use the same directory.
remove_runtime_files() {
    [ -x "$VENV/bin/python" ] && [ -d "$PROFILE_HOME" ] || return 0
    socket=$("$VENV/bin/python" -c 'import sys; from pathlib import Path
from memory_tencentdb.paths import socket_path
print(socket_path(Path(sys.argv[1])))' "$PROFILE_HOME/data" 2>/dev/null) || return 0
    for path in "${socket%.sock}".*; do
        exists "$path" || continue
        say "removing $path"
        rm -f -- "$path"
    done
    rmdir -- "$(dirname -- "$socket")" 2>/dev/null || true
}

# Of the copies that were made of the host's configuration the newest stays.
remove_old_backups() {
    newest=
    for path in "$HERMES"/config.yaml.bak-[0-9]*T[0-9]*Z*; do
        [ -f "$path" ] || continue
        if [ -n "$newest" ]; then
            say "removing $newest"
            rm -f -- "$newest"
        fi
        newest=$path
    done
    [ -z "$newest" ] || say "kept $newest: the host's configuration before the last change"
}

case $action in
    install) install_all ;;
    check) check_all ;;
    uninstall) uninstall_all ;;
esac
