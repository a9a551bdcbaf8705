"""Make a torchvision that was built for CUDA importable with a CPU build of torch; only its Python code is used.

transformers and Qwen2.5-VL's processor import torchvision. Its import registers kernels for operators that its compiled
library declares, but that library does not load here. `make verl` copies this file into the environment's
site-packages, beside a .pth file that imports it in every process; nothing happens until torchvision is imported.
"""

import sys


class _DeclareOperators:
    """An import hook that declares torchvision's operators just before torchvision is imported."""

    def find_spec(self, name, path=None, target=None):
        """Return None, so that the usual finders import the module."""
        if name == "torchvision":
            sys.meta_path.remove(self)
            import torch

            if not torch.cuda.is_available():
                library = torch.library.Library("torchvision", "FRAGMENT")
                library.define("nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
                library.define("qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
                sys.torchvision_operators = library  # the operators live as long as this object
        return None


sys.meta_path.insert(0, _DeclareOperators())
