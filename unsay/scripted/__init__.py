"""Scripted models, judges and topic detectors, to test agents without a provider or a key.

`models` holds `ScriptedChat` and `ScriptedJudge`, `detector` holds `ScriptedDetector`, and
`replies` what they can be told to do: call tools, fail, be late, break off.
"""
