"""Runs cases one after the other and says of each whether the program behind the library noticed anything."""

import os
import sys

URL = os.environ["BACKSTOP_URL"]
KEY = os.environ["BACKSTOP_KEY"]
MODEL = os.environ.get("BACKSTOP_MODEL", "some-model")


def run(cases):
    """Each case is a function that is given its provider's id, its own name with dashes, and returns the text."""
    failed = False
    for case in cases:
        provider = case.__name__.replace("_", "-")
        try:
            text = case(provider)
            assert text, "the answer is empty"
            print(f"ok {provider}: {text!r}")
        except Exception as error:  # what a caller would see, whatever it is
            failed = True
            print(f"FAILED {provider}: {type(error).__name__}: {error}")
    sys.exit(1 if failed else 0)
