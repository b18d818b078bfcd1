"""Does: runs a plan's epochs on Spark, over Delta."""
