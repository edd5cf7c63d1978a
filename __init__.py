"""Lets `hermes plugins install <this repository>` load the provider; register_memory_provider is called in there."""

if __package__:  # a test runner imports this file alone when the checkout's folder has no name fit for a package
    from .memory_tencentdb import register

    __all__ = ["register"]
