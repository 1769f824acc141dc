"""API keys: who may ask, and what."""

from gateway.keys.store import ApiKey, KeyProblem, KeyStore
from gateway.keys.tiers import Caller, NotAllowed, Tier

__all__ = ["ApiKey", "Caller", "KeyProblem", "KeyStore", "NotAllowed", "Tier"]
