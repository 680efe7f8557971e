"""What can go wrong in our own process before a server answers, as sentences a user can act on.

TritoneError
 +-- ProvisionError   something needed is missing and could not be fetched or made
 +-- ModelError       the model given cannot be served, or its name cannot be used
"""

from __future__ import annotations


class TritoneError(Exception):
    """Root of all errors whose text is meant for the user: shown as it is, without a traceback."""


class ProvisionError(TritoneError):
    """Something Tritone needs is missing and could not be fetched or made."""


class ModelError(TritoneError):
    """A model that cannot be served, or a name no model can have."""
