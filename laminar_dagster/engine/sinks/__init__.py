"""Where a view's changes are delivered: one module per kind of target. Only messages need Spark."""
