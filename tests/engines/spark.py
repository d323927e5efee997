"""Spark in little memory, whatever its master."""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
import urllib.request
from pathlib import Path

JAVA = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"


def session(master, *, remote=False, env=None, **options):
    """Start Spark and return its session; options have "_" for "."."""
    import pyspark
    from pyspark.sql import SparkSession

    os.environ["SPARK_HOME"] = str(Path(pyspark.__file__).parent)
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    settings = {
        "spark.driver.memory": "1g",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": JAVA,
        "spark.executor.extraJavaOptions": JAVA,
        "spark.ui.enabled": "false",
        "spark.log.level": "OFF",
        "spark.sql.shuffle.partitions": "4",
        "spark.default.parallelism": "4",
    }
    settings |= {name.replace("_", "."): value for name, value in options.items()}
    given = {**(env or {}), "PYTHONPATH": os.environ["PYTHONPATH"]}
    settings |= {f"spark.executorEnv.{name}": value for name, value in given.items()}
    builder = SparkSession.builder
    builder = builder.remote(master) if remote else builder.master(master)
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


@contextlib.contextmanager
def standalone(folder, port=17077):
    """Give a master with two workers, each on an address of its own."""
    import pyspark

    home = Path(pyspark.__file__).parent
    java = {"SPARK_DAEMON_MEMORY": "256m", "SPARK_DAEMON_JAVA_OPTS": JAVA}
    url = f"spark://127.0.0.1:{port}"
    place = "org.apache.spark.deploy"
    master = [f"{place}.master.Master", "--host", "127.0.0.1", "--port", str(port)]
    commands = [(master, "127.0.0.1")]
    for host in ("127.0.0.2", "127.0.0.3"):
        worker = [f"{place}.worker.Worker", "--host", host, "--cores", "1"]
        worker += ["--memory", "600m", "--work-dir", str(folder / host), url]
        commands.append((worker, host))
    started = []
    try:
        for command, host in commands:
            env = {
                **os.environ,
                **java,
                "SPARK_HOME": str(home),
                "SPARK_LOCAL_IP": host,
            }
            log = (folder / f"{command[0]}-{host}.log").open("w")
            whole = [str(home / "bin/spark-class"), *command, "--webui-port", "18077"]
            started.append(subprocess.Popen(whole, env=env, stdout=log, stderr=log))
        _wait_for_workers()
        yield url
    finally:
        for process in reversed(started):
            process.terminate()
        for process in started:
            process.wait(30)


def _wait_for_workers():
    for _ in range(300):
        with contextlib.suppress(OSError):
            page = urllib.request.urlopen("http://127.0.0.1:18077/json/", timeout=5)
            if page.read().count(b'"ALIVE"') >= 3:
                return
        time.sleep(0.2)
    raise RuntimeError("the workers of the standalone master did not come")
