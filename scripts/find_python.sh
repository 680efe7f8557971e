#!/bin/sh
# Prints the Python to make the virtual environment with: the first on PATH that also runs inside Triton.
# PYTHON=... names the only one to try. Run from the repository root, by scripts/venv.sh.
set -u

seen=
tried=

# Being on PATH says little (a pyenv shim may have no Python behind it), so every candidate is run.
try() {
    file=$(readlink -f "$1")
    case "$seen" in *":$file:"*) return ;; esac
    seen="$seen:$file:"
    if verdict=$("$1" -m scripts.check_python 2>&1 < /dev/null); then
        "$1" -c 'import sys; print(sys.executable)'
        exit
    fi
    tried="$tried
  $1: $(echo "$verdict" | head -n 1)"
}

try_all_on_path() {
    IFS=:
    for folder in $PATH; do
        [ -x "$folder/$1" ] && try "$folder/$1"
    done
    unset IFS
}

if [ -n "${PYTHON:-}" ]; then
    try "$PYTHON"
else
    for name in python3.12 python3.11 python3.10 python3 python3.13; do
        try_all_on_path "$name"
    done
fi

cat >&2 << EOF
Tritone needs Python 3.10 to 3.13 with venv and a shared libpython. Tried:${tried:-
  nothing: there is no python3 on PATH}

Debian, Ubuntu:  apt install python3-venv python3-dev g++
Elsewhere:       install Python 3.10, 3.11 or 3.12, or name one: make serve PYTHON=/path/to/python3.12
EOF
exit 1
