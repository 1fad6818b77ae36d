"""Writes what an image contains into a folder: python sbom.py FOLDER

sbom.cdx.json is a CycloneDX list of the Python and Debian packages, licenses.txt the licences of
the Python packages. Those of Debian packages are /usr/share/doc/*/copyright.
"""

import json
import subprocess
import sys
from importlib.metadata import Distribution, distributions
from pathlib import Path


def licence(package: Distribution) -> str:
    """Returns the licence that a package states, or an empty text."""
    data = package.metadata
    classifiers = [
        text.rpartition(" :: ")[2]
        for text in data.get_all("Classifier") or ()
        if text.startswith("License")
    ]
    return (
        data.get("License-Expression")
        or " and ".join(classifiers)
        or (data.get("License") or "").partition("\n")[0]
    )


def main(folder: Path) -> None:
    packages = sorted(distributions(), key=lambda package: package.name.lower())
    components = [
        {
            "purl": f"pkg:pypi/{package.name.lower()}@{package.version}",
            "name": package.name,
            "version": package.version,
        }
        | ({"licenses": [{"license": {"name": name}}]} if (name := licence(package)) else {})
        for package in packages
    ]
    query = ["dpkg-query", "--show", "--showformat", "${Package} ${Version}\\n"]
    for line in subprocess.run(
        query, capture_output=True, text=True, check=True
    ).stdout.splitlines():
        name, version = line.split()
        components.append(
            {"purl": f"pkg:deb/debian/{name}@{version}", "name": name, "version": version}
        )
    listed = [
        {"type": "library", "bom-ref": component["purl"]} | component for component in components
    ]
    bom = {"bomFormat": "CycloneDX", "specVersion": "1.6", "version": 1, "components": listed}
    (folder / "sbom.cdx.json").write_text(json.dumps(bom, indent=1), encoding="utf-8")
    texts = [
        f"{'=' * 80}\n{package.name} "
        f"{package.version}\n{licence(package)}\n{file}\n\n{file.read_text(encoding='utf-8')}"
        for package in packages
        for file in package.files or ()
        if file.name.upper().startswith(("LICENSE", "LICENCE", "COPYING", "NOTICE"))
    ]
    (folder / "licenses.txt").write_text("\n".join(texts), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
