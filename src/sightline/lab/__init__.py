"""The lab: sparse projections, models with a single attention, training, conversion, adversarial attention."""

from sightline.lab.adversary import AdversarialResult, AttentionPair, adversary
from sightline.lab.convert import Conversion, convert
from sightline.lab.distributions import jensen_shannon, normalised_entropy, project, total_variation
from sightline.lab.feature_importance import FeatureImportance, feature_importance
from sightline.lab.lambda_curve import LambdaCurve, lambda_curve
from sightline.lab.train import Training, train
from sightline.settings.training import TrainingSettings

__all__ = [
    "AdversarialResult",
    "AttentionPair",
    "Conversion",
    "FeatureImportance",
    "LambdaCurve",
    "Training",
    "TrainingSettings",
    "adversary",
    "convert",
    "feature_importance",
    "jensen_shannon",
    "lambda_curve",
    "normalised_entropy",
    "project",
    "total_variation",
    "train",
]
