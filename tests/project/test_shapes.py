"""Array shapes and types that annotations promise, checked at run time by jaxtyping and beartype."""

import pytest

from tests.command import python

pytestmark = pytest.mark.slow

CHECKED = {"BEPO_CHECK_SHAPES": "1"}
# Every array of the core and of every estimator passes through these; the other tests of credit add no code.
SUITES = [f"tests/credit/test_{name}.py" for name in ("golden", "reference")]


@pytest.mark.long
def test_the_core_and_the_estimators_keep_their_annotated_shapes():
    done = python("-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", "0", "tests/core", *SUITES, **CHECKED)
    assert done.returncode == 0, done.stdout[-3000:]


def test_a_wrong_shape_is_noticed():
    code = (
        "import tests.conftest, numpy as np\n"
        "from bepo.core.gate import binary\n"
        "binary(np.array([1, 2]), np.array([1, 2, 3]), 2, 2)\n"
    )
    done = python("-c", code, **CHECKED)
    assert done.returncode != 0 and "TypeCheckError" in done.stderr
