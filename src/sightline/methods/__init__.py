"""Attribution methods: importing this room registers them all."""

from sightline.methods.alti import alti, globenc, norm_rollout
from sightline.methods.attention_weights import (
    attention_gradcam,
    attgrads,
    grads,
    raw_attention,
    received_attention,
    rollout,
)
from sightline.methods.cat import attcat, cat
from sightline.methods.conductance import layer_conductance
from sightline.methods.decomposition.matrices import layer_contributions, relevance_matrices
from sightline.methods.flow.solve import attention_flow
from sightline.methods.gradients import gradient, input_x_gradient, integrated_gradients
from sightline.methods.logit_parts import alti_logit, decompx
from sightline.methods.lrp import attnlrp, lrp, partial_lrp, transatt
from sightline.methods.max_flow import flow
from sightline.methods.owen import owen
from sightline.methods.perturbation import leave_one_out, occlusion
from sightline.methods.registry import METHODS, Attribution, Method, group_methods, list_methods, method
from sightline.methods.sampling import gradient_shap, kernel_shap, lime, random

__all__ = [
    "METHODS",
    "Attribution",
    "Method",
    "alti",
    "alti_logit",
    "attcat",
    "attention_flow",
    "attention_gradcam",
    "attgrads",
    "attnlrp",
    "cat",
    "decompx",
    "flow",
    "globenc",
    "gradient",
    "gradient_shap",
    "grads",
    "group_methods",
    "input_x_gradient",
    "integrated_gradients",
    "kernel_shap",
    "layer_conductance",
    "layer_contributions",
    "leave_one_out",
    "lime",
    "list_methods",
    "lrp",
    "method",
    "norm_rollout",
    "occlusion",
    "owen",
    "partial_lrp",
    "random",
    "raw_attention",
    "received_attention",
    "relevance_matrices",
    "rollout",
    "transatt",
]
