"""DeepLabV3 of torchvision, for segmentation."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn

from trainables.data.kinds.arrays import SegmentedImages
from trainables.models.segmenter import Segmenter
from trainables.plugins.arguments import describe_error
from trainables.plugins.extras import require_extra


def deeplabv3_resnet50(
    *, samples: SegmentedImages, num_classes: int, pretrained: bool | str = False
) -> Segmenter:
    """DeepLabV3 on a ResNet-50 with output stride 8; needs at least two images per worker.

    Source: L.-C. Chen et al., Rethinking Atrous Convolution for Semantic Image Segmentation, 2017.

    Options:
        pretrained: File with weights of torchvision for the encoder: a ResNet-50, or a whole
            DeepLabV3, whose last layer is not used. ``true`` downloads the ImageNet weights of the
            ResNet-50, unless they are cached.
    """
    require_extra("deeplabv3", "images", "torchvision")
    from torchvision.models import ResNet50_Weights
    from torchvision.models.segmentation import deeplabv3_resnet50 as build

    return _deeplabv3(build, samples, num_classes, pretrained, ResNet50_Weights.IMAGENET1K_V1)


def deeplabv3_resnet34(
    *, samples: SegmentedImages, num_classes: int, pretrained: bool | str = False
) -> Segmenter:
    """DeepLabV3 on timm's ResNet-34 with output stride 8; needs at least two images per worker.

    Source: as ``deeplabv3_resnet50``; Liu et al. 2023 (CALS), appendix B.

    Options:
        pretrained: File with weights of timm for the encoder: a ResNet-34. ``true`` downloads the
            ImageNet weights, unless they are cached.
    """
    require_extra("deeplabv3", "images", "timm", "torchvision")
    import timm
    from torchvision.models.segmentation.deeplabv3 import DeepLabHead

    backbone = timm.create_model(
        "resnet34",
        pretrained=pretrained is True,
        num_classes=0,
        global_pool="",
        output_stride=8,
        in_chans=samples.shape[0],
    )
    return _segmenter(backbone, DeepLabHead(512, num_classes), samples, pretrained)


def deeplabv3_mobilenet_v3_large(
    *, samples: SegmentedImages, num_classes: int, pretrained: bool | str = False
) -> Segmenter:
    """DeepLabV3 on a MobileNetV3-Large; needs at least two images per worker.

    Source: as ``deeplabv3_resnet50``; A. Howard et al., Searching for MobileNetV3, 2019.

    Options:
        pretrained: See ``deeplabv3_resnet50``, with a MobileNetV3-Large.
    """
    require_extra("deeplabv3", "images", "torchvision")
    from torchvision.models import MobileNet_V3_Large_Weights
    from torchvision.models.segmentation import deeplabv3_mobilenet_v3_large as build

    weights = MobileNet_V3_Large_Weights.IMAGENET1K_V1
    return _deeplabv3(build, samples, num_classes, pretrained, weights)


def _deeplabv3(
    build: Callable[..., Any],
    samples: SegmentedImages,
    num_classes: int,
    pretrained: bool | str,
    published: Any,
) -> Segmenter:
    if samples.shape[0] != 3:
        raise ValueError(f"DeepLabV3 needs colour images, not {samples}")
    whole = build(
        weights=None,
        weights_backbone=published if pretrained is True else None,
        num_classes=num_classes,
        aux_loss=False,
    )
    return _segmenter(whole.backbone, whole.classifier, samples, pretrained)


def _segmenter(
    backbone: nn.Module, classifier: Any, samples: SegmentedImages, pretrained: bool | str
) -> Segmenter:
    """A backbone and a head of DeepLabV3, whose last layer gets new weights."""
    *layers, last = classifier
    encoder = _Encoder(backbone, nn.Sequential(*layers))
    if isinstance(pretrained, str):
        _load(encoder, Path(pretrained).expanduser())
    head = nn.Linear(last.in_channels, last.out_channels)
    return Segmenter(encoder, head, samples.shape)


class _Encoder(nn.Module):
    def __init__(self, backbone: nn.Module, classifier: nn.Module) -> None:
        super().__init__()
        self.backbone = backbone
        self.classifier = classifier

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Feature maps (N, 256, h, w) of images (N, 3, H, W)."""
        found = self.backbone(images)  # of torchvision, maps by name
        features: torch.Tensor = self.classifier(found["out"] if isinstance(found, dict) else found)
        return features


def _load(encoder: _Encoder, path: Path) -> None:
    """Loads the weights of the encoder, or of its backbone; ``ValueError`` if they do not fit."""
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # a damaged file may raise anything
        raise ValueError(f"pretrained={path} cannot be read: {describe_error(error)}") from None
    target: nn.Module = encoder
    if not any(name.startswith("backbone.") for name in state):
        # The backbone of MobileNetV3 is its module "features".
        state = {name.removeprefix("features."): value for name, value in state.items()}
        target = encoder.backbone
    own = target.state_dict()
    if missing := sorted(name for name in own if name not in state):
        raise ValueError(f"pretrained={path} has no {missing[0]}: it is of another network")
    try:
        target.load_state_dict({name: state[name] for name in own})
    except RuntimeError as error:
        raise ValueError(f"pretrained={path} is of another network: {error}") from None
