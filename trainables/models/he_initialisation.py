"""Initialisation of convolutions in the papers on ResNet and DenseNet."""

from torch import nn

from trainables.models.base import Classifier


def he_initialised(model: Classifier) -> Classifier:
    """Draws the weights of each convolution from N(0, 2 / fan out), in place.

    K. He et al., Delving Deep into Rectifiers, 2015, section 2.2.

    Returns:
        The model itself.
    """
    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
    return model
