"""The lab: sparse projections, models with a single attention, training, conversion, adversarial attention."""

from sightline.lab.divergences import jensen_shannon, normalised_entropy, total_variation
from sightline.lab.projection import project

__all__ = ["jensen_shannon", "normalised_entropy", "project", "total_variation"]
