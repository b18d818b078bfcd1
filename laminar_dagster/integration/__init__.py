"""Shows: views as Dagster assets. The only package besides `assets` that imports dagster."""
