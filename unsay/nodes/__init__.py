"""The five nodes of the graph.

They are imported at once: each function is named like its module, and a lazy name would give the
module instead.
"""

from unsay.nodes.create_checkpoint import create_checkpoint
from unsay.nodes.detect_topic_change import detect_topic_change
from unsay.nodes.evaluate_quality import evaluate_quality
from unsay.nodes.process_message import process_message
from unsay.nodes.rollback import rollback

__all__ = [
    "create_checkpoint",
    "detect_topic_change",
    "evaluate_quality",
    "process_message",
    "rollback",
]
