"""The command ``bepo new``, and the templates of the packages that it writes."""
