"""Asks the hub once whether it has a model or a data set, before a library asks many times.

Loads nothing, and imports the hub's library only when somebody asks.
"""

import os
from typing import Literal

Kind = Literal["model", "data set"]

_FILE = {"model": "config.json", "data set": "README.md"}
"""The file that a repository is asked for. A data set need not have it."""
_TYPE = {"model": "model", "data set": "dataset"}
_LIMIT = "HF_HUB_ETAG_TIMEOUT"
_SECONDS = 4.0


def absence(name: str, kind: Kind) -> str | None:
    """The reason why a name cannot be had from the hub. None if the hub has it, if a model is in
    the cache, and where the library knows better what to say: it wants a password, or is not
    installed."""
    try:
        import huggingface_hub as hub
        from huggingface_hub.errors import (
            EntryNotFoundError,
            GatedRepoError,
            HfHubHTTPError,
            RepositoryNotFoundError,
        )
    except ModuleNotFoundError:
        return None
    nothing = f"the hub has no {kind} of that name, or not for you"
    try:
        if kind == "model" and isinstance(hub.try_to_load_from_cache(name, _FILE[kind]), str):
            return None
        url = hub.hf_hub_url(name, _FILE[kind], repo_type=_TYPE[kind])
        hub.get_hf_file_metadata(url, timeout=_seconds())
    except (GatedRepoError, EntryNotFoundError):
        return None
    except RepositoryNotFoundError:
        return nothing
    except HfHubHTTPError as error:
        code = getattr(error.response, "status_code", None)  # a mirror may say no more than that
        return nothing if code == 404 else f"the hub could not be asked: {_first_line(error)}"
    except Exception as error:  # of whichever HTTP library this release of the hub uses
        more = f" (set {_LIMIT} to wait longer)" if "Timeout" in type(error).__name__ else ""
        return f"the hub could not be asked: {_first_line(error)}{more}"
    return None


def _seconds() -> float:
    """Patience with an answer: as the hub's library is told to have, or little."""
    try:
        return float(os.environ[_LIMIT])
    except (KeyError, ValueError):
        return _SECONDS


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0].rstrip(".") or type(error).__name__
