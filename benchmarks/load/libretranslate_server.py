"""LibreTranslate with our weights, for `benchmarks.load.beside_libretranslate`. Runs in
LibreTranslate's own environment and imports nothing of this project:

    PYTHON benchmarks/load/libretranslate_server.py --port 5000 --threads 1 --beam-size 4
    en_de.argosmodel de_en.argosmodel

Its sentence splitter is replaced by one that returns the text as it is, because the requests are
single sentences. It would take further time and a model from the network.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import zipfile


def main() -> None:
    """Unpacks the packages and runs the command line of LibreTranslate."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--port", required=True)
    parser.add_argument("--threads", default="1", help="threads of CTranslate2")
    parser.add_argument("--beam-size", default="4", help="4 is LibreTranslate's default")
    parser.add_argument(
        "packages",
        nargs="+",
        help="Argos packages; with fewer than two LibreTranslate asks its index",
    )
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as home:
        packages = f"{home}/packages"
        for package in options.packages:
            with zipfile.ZipFile(package) as archive:
                archive.extractall(packages)
        os.environ |= {
            "HOME": home,
            "ARGOS_PACKAGES_DIR": packages,
            "ARGOS_INTRA_THREADS": options.threads,
            "ARGOS_BEAM_SIZE": options.beam_size,
            "OMP_NUM_THREADS": options.threads,
        }
        os.chdir(home)  # it writes its database there
        serve(options.port)


def serve(port: str) -> None:
    """Runs LibreTranslate without its sentence splitter, file translation and page."""
    from argostranslate import translate  # type: ignore[import-not-found,unused-ignore]
    from libretranslate.main import main as libretranslate  # type: ignore[import-not-found,unused-ignore]

    class WholeText:
        """A splitter that returns the text as one sentence."""

        def __init__(self, package: object) -> None:
            pass

        def split_sentences(self, text: str) -> list[str]:
            return [text]

    translate.MiniSBDSentencizer = WholeText
    sys.argv = ["libretranslate", "--port", port, "--disable-web-ui", "--disable-files-translation"]
    libretranslate()


if __name__ == "__main__":
    main()
