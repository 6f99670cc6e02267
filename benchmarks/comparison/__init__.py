"""Parts of the comparison with cleanlab: settings, methods, scores, tables, page."""
