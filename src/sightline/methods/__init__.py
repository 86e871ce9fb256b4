"""Attribution methods: importing this room registers them all."""

from sightline.methods.attention_gradients import attention_gradcam, attgrads, grads
from sightline.methods.attention_weights import raw_attention, received_attention, rollout
from sightline.methods.baselines import random
from sightline.methods.cat import attcat, cat
from sightline.methods.gradients import gradient, input_x_gradient
from sightline.methods.integrated_gradients import integrated_gradients
from sightline.methods.perturbation import occlusion
from sightline.methods.registry import METHODS, Attribution, Method, list_methods, method

__all__ = [
    "METHODS",
    "Attribution",
    "Method",
    "attcat",
    "attention_gradcam",
    "attgrads",
    "cat",
    "gradient",
    "grads",
    "input_x_gradient",
    "integrated_gradients",
    "list_methods",
    "method",
    "occlusion",
    "random",
    "raw_attention",
    "received_attention",
    "rollout",
]
