#!/bin/sh
# Makes .venv, or leaves it alone when it is ready: scripts/venv.sh serve|dev (dev adds what tests and checks need).
# Ready is what .venv/ready-* says: written last, so that an interrupted installation is begun again, and holding what
# it was made from, so that nothing is done until that changes.
set -eu
cd "$(dirname "$0")/.."
wanted=$1

# Of two at once, the second finds the work done (macOS has no flock).
exec 9< pyproject.toml
if command -v flock > /dev/null && ! flock -n 9; then
    echo "Waiting for another make that prepares .venv" >&2
    flock 9
fi

made_from=$(cksum pyproject.toml; echo "$PWD ${PYTHON:-}")
is_ready() { [ "$(cat ".venv/ready-$1" 2> /dev/null)" = "$made_from" ]; }
runs() { .venv/bin/python -c '' 2> /dev/null; }
if { is_ready dev || is_ready "$wanted"; } && runs; then exit; fi

python=$(scripts/find_python.sh)
echo "Preparing .venv with $python" >&2
made_with="$PWD $("$python" -VV)"
# Only a finished installation, of the same Python and in the same place, may be built upon.
if ! ls .venv/ready-* > /dev/null 2>&1 || ! runs || [ "$(cat .venv/made-with)" != "$made_with" ]; then
    rm -rf .venv
    "$python" -m venv .venv
    echo "$made_with" > .venv/made-with
fi
rm -f .venv/ready-*

case $wanted in
    serve) extras=openvino ;;
    dev) extras=openvino,dev ;;
esac
numpy=$(.venv/bin/python -m scripts.numpy_wheel)
.venv/bin/python -m pip install --disable-pip-version-check --no-input --no-compile \
    ${numpy:+"$numpy"} --editable ".[$extras]"
# pip would compile on one core: a third of its time. Some packages carry files that are not meant to compile.
.venv/bin/python -m compileall -qq -j 0 .venv/lib || true
echo "$made_from" > ".venv/ready-$wanted"
