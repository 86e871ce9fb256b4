"""Models: loading, families, tasks and targets, and the observable network."""

from sightline.models.loading import load_network
from sightline.models.network import Network
from sightline.models.recording import Recorder
from sightline.models.target import ALL, Prediction, Request, Target, TargetLike

__all__ = ["ALL", "Network", "Prediction", "Recorder", "Request", "Target", "TargetLike", "load_network"]
