"""Every text for a model or a person, English and Japanese.

Example:
    >>> ENGLISH.replace(title_system="Give this conversation a title of three words.").language
    'en'
"""

from unsay.prompts.catalogue import ENGLISH, JAPANESE, Texts

__all__ = ["ENGLISH", "JAPANESE", "Texts"]
