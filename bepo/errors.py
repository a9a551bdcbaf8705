"""The one exception that users are meant to see."""


class UserError(ValueError):
    """A mistake a user can mend. Shown as one line, without a traceback."""


def choose(what: str, value: object, choices: object) -> UserError:
    """A ``UserError`` that names the value and the choices."""
    return UserError(f"unknown {what} {value!r}; choices: {', '.join(sorted(map(str, choices)))}")
