"""The operating system's text for an error, to be used within a sentence."""

import os


def os_reason(error: OSError) -> str:
    """Why something could not be done.

    asyncio writes addresses into the text of numbered errors, so those are looked up by number; the
    errors of TLS and of name servers have numbers of their own.
    """
    is_numbered = type(error).__module__ == "builtins" and (error.errno or 0) > 0
    text = os.strerror(error.errno or 0) if is_numbered else error.strerror
    return (text or str(error)).lower()
