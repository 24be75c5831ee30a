"""The ablation: a number behind each retrieval setting, every result computed once."""

from scholar_rag_li.ablation.ablation import Ablation, AblationResult
from scholar_rag_li.ablation.config import EmbeddingSettings, Settings, read_config
from scholar_rag_li.ablation.plan import PlannedStudy, System

__all__ = [
    "Ablation",
    "AblationResult",
    "EmbeddingSettings",
    "PlannedStudy",
    "Settings",
    "System",
    "read_config",
]
