"""Initialisation of convolutions in the papers on ResNet and DenseNet."""

from torch import nn

from trainables.models.base import Classifier


def he_initialised(model: Classifier) -> Classifier:
    """The model, with the weights of each convolution drawn from N(0, 2 / fan out).

    K. He et al., Delving Deep into Rectifiers, 2015, section 2.2.
    """
    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
    return model
