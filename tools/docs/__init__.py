"""The documentation site, made from the pages, docstrings and examples, and checked.

    python -m tools.docs build SITE    # HTML in the folder SITE, without a warning
    python -m tools.docs check SITE    # opens every page in headless Chromium

Why these tools, and what was turned down: docs/design/0009-documentation-site.md.
"""
