"""Every text for a model or a person, English and Japanese.

Example:
    >>> from dataclasses import replace
    >>> replace(ENGLISH, title_system="Give this conversation a title of three words.").language
    'en'
"""

from unsay.prompts.fields import ENGLISH, JAPANESE, Texts

__all__ = ["ENGLISH", "JAPANESE", "Texts"]
