"""What the operating system says of an error, in words that fit into a sentence."""

import os


def os_reason(error: OSError) -> str:
    """Why something could not be done.

    asyncio writes addresses into the text of numbered errors, so those are told by their number;
    the errors of TLS and of name servers have numbers of their own.
    """
    is_numbered = type(error).__module__ == "builtins" and (error.errno or 0) > 0
    told = os.strerror(error.errno or 0) if is_numbered else error.strerror
    return (told or str(error)).lower()
