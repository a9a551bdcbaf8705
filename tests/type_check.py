"""The run-time checker of annotated types and array shapes, for jaxtyping's import hook (see conftest.py)."""

from beartype import BeartypeConf, beartype

checked = beartype(conf=BeartypeConf(is_pep484_tower=True))  # an int is a float, as in PEP 484
