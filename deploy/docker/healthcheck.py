"""The health check of the container: exit status 0 where GET /ready is 200.

Docker does not restart an unhealthy container, only one that has ended. A server that accepts
connections and does not answer GET /health in FAILURES checks in a row is therefore killed here:
the container ends, and its restart policy starts it again. Other failures do not count: the
connection of a server that starts or stops is refused, and a 503 is an answer.
"""

import http.client
import os
import signal
import sys
from pathlib import Path

FAILURES = 3
SECONDS = 4.0
COUNT = Path(os.environ.get("HEALTHCHECK_COUNT", "/tmp/unanswered-health-checks"))  # noqa: S108  the container's own


def status(path: str) -> int:
    """Returns the status of GET `path`. Raises TimeoutError where no answer comes, OSError where no
    server listens."""
    connection = http.client.HTTPConnection(
        "127.0.0.1", int(os.environ["ATTENTIVE_PORT"]), timeout=SECONDS
    )
    try:
        connection.request("GET", path)
        return connection.getresponse().status
    finally:
        connection.close()


def unanswered() -> int:
    """Returns how many checks in a row had no answer, this one included."""
    try:
        count = int(COUNT.read_text(encoding="ascii"))
    except (OSError, ValueError):
        count = 0
    COUNT.write_text(str(count + 1), encoding="ascii")
    return count + 1


def servers(init: int) -> list[int]:
    """Returns the process ids of the server: the children of the container's first process."""
    return [
        int(pid)
        for pid in Path(f"/proc/{init}/task/{init}/children").read_text(encoding="ascii").split()
    ]


def main(init: int) -> int:
    try:
        status("/health")
    except TimeoutError:
        if unanswered() >= FAILURES:
            COUNT.unlink()
            for pid in servers(init):
                os.kill(pid, signal.SIGKILL)
            sys.stdout.write(
                f"The server did not answer {FAILURES} health checks and was killed.\n"
            )
        return 1
    except (OSError, http.client.HTTPException):
        return 1
    COUNT.unlink(missing_ok=True)
    try:
        return int(status("/ready") != 200)
    except (OSError, http.client.HTTPException):
        return 1


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 1))
