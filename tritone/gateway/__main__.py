"""`python -m tritone.gateway`: a gateway whose configuration comes as JSON by stdin, or a worker of one.

The launcher starts the first; the first starts the others, each with the number of the listening socket it inherits.
"""

from __future__ import annotations

import logging
import socket
import sys

from tritone.errors import TritoneError
from tritone.gateway.server import run
from tritone.gateway.settings import GatewayConfig
from tritone.log_format import set_up_logging


def main() -> int:
    """Serve; the exit status."""
    config = GatewayConfig.model_validate_json(sys.stdin.buffer.read())
    set_up_logging(config.log_format, config.log_level)
    try:
        if len(sys.argv) == 1:
            return run(config)
        from tritone.gateway.worker import serve

        return serve(config, socket.socket(fileno=int(sys.argv[1])))
    except TritoneError as error:
        logging.getLogger(__name__).error("%s", error)
        return 1


if __name__ == "__main__":
    sys.exit(main())
