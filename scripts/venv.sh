#!/bin/sh
# Makes .venv, or leaves it alone when it is ready: scripts/venv.sh serve|dev (dev adds what tests and checks need).
# Ready is what .venv/ready-* says. It is written last, so that an interrupted installation is begun again, and it
# holds what the installation was made from, so that only a change there (or of the folder's place) makes another.
set -eu
cd "$(dirname "$0")/.."
wanted=$1

exec 9< pyproject.toml
flock 9 # of two at once, the second finds the work done

made_from=$(cksum pyproject.toml scripts/venv.sh; echo "$PWD ${PYTHON:-}")
is_ready() { [ -f ".venv/ready-$1" ] && [ "$(cat ".venv/ready-$1")" = "$made_from" ]; }
if is_ready dev || is_ready "$wanted"; then
    .venv/bin/python -c '' 2> /dev/null && exit
fi

python=$(scripts/find_python.sh)
echo "Preparing .venv with $python" >&2
# Only a finished installation of the same Python may be built upon.
if ! ls .venv/ready-* > /dev/null 2>&1 || [ "$(.venv/bin/python -VV 2>&1)" != "$("$python" -VV)" ]; then
    rm -rf .venv
    "$python" -m venv .venv
fi
rm -f .venv/ready-*

case $wanted in
    serve) extras=openvino ;;
    dev) extras=openvino,dev ;;
esac
numpy=$(.venv/bin/python -m scripts.numpy_wheel)
.venv/bin/python -m pip install --disable-pip-version-check --no-input ${numpy:+"$numpy"} --editable ".[$extras]"
echo "$made_from" > ".venv/ready-$wanted"
