# Makes private Python environments inside the checkout; sourced by the scripts beside it.
# shellcheck shell=bash

checkout=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)

find_python() {
    local candidate
    for candidate in ${PYTHON:+"$PYTHON"} python3.11 python3.12 python3.13 python3; do
        if command -v "$candidate" >/dev/null && "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            command -v "$candidate"
            return 0
        fi
    done
    echo "no Python 3.11 or newer found; set PYTHON" >&2
    return 1
}

# environment DIR STAMP REQUIREMENT...: installs the requirements into DIR once, and again when STAMP changes. An
# environment whose stamp begins with STAMP holds all that is asked for, and more.
environment() {
    local directory=$1 stamp=$2
    shift 2
    if [[ -f $directory/.stamp && $(<"$directory/.stamp") == "$stamp"* ]] && "$directory/bin/python" -c '' 2>/dev/null; then
        return 0
    fi
    echo "making ${directory#"$checkout"/} ..." >&2
    if ! "$directory/bin/python" -c '' 2>/dev/null; then
        make_environment "$directory" || return 1
    fi
    install_requirements "$directory" "$@" || return 1
    printf '%s' "$stamp" >"$directory/.stamp"
}

make_environment() {
    local python
    python=$(find_python) || return 1
    rm -rf "$1"
    "$python" -m venv "$1" 2>/dev/null && "$1/bin/python" -m pip --version >/dev/null 2>&1 && return 0
    command -v uv >/dev/null || { echo "$python has no venv module (on Debian: apt install python3-venv), and uv is not installed" >&2; return 1; }
    uv venv --quiet --clear --python "$python" "$1"
}

install_requirements() {
    local directory=$1
    shift
    if "$directory/bin/python" -m pip --version >/dev/null 2>&1; then
        PIP_DISABLE_PIP_VERSION_CHECK=1 "$directory/bin/python" -m pip install --quiet "$@"
    else
        uv pip install --quiet --python "$directory/bin/python" "$@"
    fi
}

# What an environment depends on: a changed pyproject.toml or another place of the checkout makes it anew.
project_stamp() {
    printf '%s %s' "$(cksum <"$checkout/pyproject.toml" | tr ' ' '-')" "$checkout"
}
