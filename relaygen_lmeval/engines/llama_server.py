"""A script that starts llama.cpp's own server on a GGUF file, through the package xllamacpp.

It is run by path, in a Python that may not have this package: standard library and xllamacpp only.
"""

from __future__ import annotations

import argparse
import time


def main() -> None:
    """Serve until the process is ended."""
    import xllamacpp

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", help="a .gguf file")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--parallel", type=int, default=4, help="requests at once")
    parser.add_argument("--context", type=int, default=0, help="tokens of each; 0: the model's")
    args = parser.parse_args()
    params = xllamacpp.CommonParams()
    params.model.path = args.model
    params.hostnames, params.port = ["127.0.0.1"], args.port
    params.n_parallel, params.n_ctx = args.parallel, args.context * args.parallel
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = args.threads
    params.offline, params.ui = True, False
    server = xllamacpp.Server(params)
    print("listening on", server.listening_address, flush=True)
    while True:
        time.sleep(3600)


if __name__ == "__main__":
    main()
