"""Spark in little memory, whatever its master."""

from __future__ import annotations

import os


def session(master, *, remote=False, **options):
    """Start Spark and return its session."""
    from pyspark.sql import SparkSession

    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    java = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
    settings = {
        "spark.driver.memory": "1g",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": java,
        "spark.executor.extraJavaOptions": java,
        "spark.ui.enabled": "false",
        "spark.log.level": "OFF",
        "spark.sql.shuffle.partitions": "4",
        "spark.default.parallelism": "4",
    }
    settings |= {name.replace("_", "."): value for name, value in options.items()}
    builder = SparkSession.builder
    builder = builder.remote(master) if remote else builder.master(master)
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()
