"""Turn finished runs into tables, figures and the page. This package reads run folders and trains nothing."""

import bepo  # noqa: F401 (Ctrl-C while the rest is imported)
