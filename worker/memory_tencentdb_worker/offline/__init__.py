"""Layers without a model: rules that take facts from text, and code that puts scenes and a persona together.

Deterministic: the same input gives the same atoms. Precision comes first; what no rule understands stays in L0, where
search finds it and a later model can still read it.
"""
