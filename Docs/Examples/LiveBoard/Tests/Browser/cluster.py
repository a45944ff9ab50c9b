"""Two servers behind one board, on three brokers: what people see, and what load sees, while one of each crashes.

Usage: cluster.py [--on postgresql] <the load command> [<a directory for pictures>]

With `--on postgresql` they are on a database, which crashes and is started again. Needs haproxy, and nats-server and
libnats, or PostgreSQL and libpq.
"""

import argparse
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import time
import urllib.request

from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait

HERE = pathlib.Path(__file__).resolve().parent
SERVERS = ["http://127.0.0.1:8081", "http://127.0.0.1:8082"]
BOTH = "http://127.0.0.1:8080"


class Cluster:
    def __init__(self, engine):
        self.engine = engine
        self.log = tempfile.NamedTemporaryFile()
        self.process = subprocess.Popen(
            [str(HERE.parent.parent / "run-cluster"), engine], stdout=self.log, stderr=subprocess.STDOUT)

    def text(self):
        return pathlib.Path(self.log.name).read_text(errors="replace")

    def pid(self, name):
        # The last one of those that took each other's place.
        return int(re.findall(f"^{name}: process (\\d+)", self.text(), re.M)[-1])

    def address(self):
        """Where the servers' log is."""
        return re.search("^log: (.*)", self.text(), re.M).group(1)

    def crash_engine(self, broker):
        """One of three brokers, or the database."""
        self.kill("database" if self.engine == "postgresql" else f"broker {broker}")

    def kill(self, name):
        os.kill(self.pid(name), signal.SIGKILL)
        print("SIGKILL:", name, flush=True)

    def stop(self):
        self.process.terminate()
        self.process.wait(30)


def ask(url, body=None):
    """The answer as JSON, or nothing."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"content-type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=15) as answer:
            return json.load(answer)
    except OSError:
        return None


def within(seconds, condition, what):
    start = time.monotonic()
    while not condition():
        if time.monotonic() - start > seconds:
            raise SystemExit(f"not within {seconds} s: {what}")
        time.sleep(0.05)
    print(f"ok after {time.monotonic() - start:.1f} s: {what}", flush=True)


def shows(server, text):
    board = ask(f"{server}/boards/1")
    return board is not None and any(card["text"] == text for column in board["columns"] for card in column["cards"])


def adds(server, text):
    return ask(f"{server}/boards/1/cards", {"text": text}) is not None


def load(command, cluster, crashes):
    """Load on both servers, while one of the crashes comes every five seconds."""
    process = subprocess.Popen(
        [command, "--url", ",".join(SERVERS), "--streams", "20", "--writers", "4", "--rate", "200",
         "--seconds", str(5 * len(crashes) + 5)], stdout=subprocess.PIPE, text=True)
    for crash in crashes:
        time.sleep(5)
        crash()
    output, _ = process.communicate(timeout=120)
    print(output, flush=True)
    assert process.returncode == 0 and "acknowledged and missing: 0" in output, "an acknowledged edit is missing"


def people(cluster, pictures):
    options = webdriver.ChromeOptions()
    for argument in ["--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--window-size=800,600"]:
        options.add_argument(argument)
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(shutil.which("chromedriver")))
    windows = {}

    def within_window(name, seconds, condition, what):
        driver.switch_to.window(windows[name])
        within(seconds, condition, f"{name}: {what}")

    def text(name):
        return driver.execute_script("return document.getElementById(arguments[0]).innerText", name)

    def add(name, card):
        driver.switch_to.window(windows[name])
        field = driver.find_element(By.CSS_SELECTOR, '[aria-label="a new card in To do"]')
        field.send_keys(card)

        # What was typed stays until it is saved: so a person presses the key again.
        def is_saved():
            if field.get_attribute("value") == "":
                return True
            field.send_keys(Keys.ENTER)
            time.sleep(0.5)
            return field.get_attribute("value") == ""

        within(60, is_saved, f"{name} adds {card}")
        for other in windows:
            within_window(other, 30, lambda: text("columns").count(card) == 1, f"sees {card}, once")

    try:
        # Two are behind the proxy, one is at the server that stays, and one at that which does not.
        for name, server in [("ann", BOTH), ("bob", BOTH), ("cat", SERVERS[1]), ("dan", SERVERS[0])]:
            driver.switch_to.new_window("window")
            driver.get(f"{server}/?name={name}")
            windows[name] = driver.current_window_handle
            WebDriverWait(driver, 30).until(lambda _: driver.find_elements(By.CSS_SELECTOR, "section"))
        for name in windows:
            within_window(name, 30, lambda: "here: ann, bob, cat, dan" in text("here"), "everybody is here")
        add("dan", "from the first server")
        cluster.kill("server 1")
        del windows["dan"]
        for name in windows:
            within_window(name, 30, lambda: text("here") == "here: ann, bob, cat", "those of the dead server are gone")
        add("ann", "behind the proxy")
        cluster.crash_engine(1)
        add("bob", "behind a crash of the engine")
        if pictures:
            driver.save_screenshot(str(pathlib.Path(pictures) / "cluster.png"))
    finally:
        driver.quit()


def read_arguments(description, *positional):
    """What the script was called with: the last of the positional ones may be missing."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--on", choices=["nats", "postgresql"], default="nats")
    for name in positional[:-1]:
        parser.add_argument(name)
    parser.add_argument(positional[-1], nargs="?")
    return parser.parse_args()


def main(engine, command, pictures):
    for trial in ["people", "load"]:
        cluster = Cluster(engine)
        try:
            for server in SERVERS:
                within(600, lambda: ask(f"{server}/ready") == {}, f"{server} is ready")
            within(60, lambda: adds(SERVERS[0], "first"), "an edit is saved")
            within(10, lambda: shows(SERVERS[1], "first"), "and is at the other server")
            if trial == "people":
                people(cluster, pictures)
            else:
                load(command, cluster, [lambda: cluster.crash_engine(2), lambda: cluster.kill("server 1")])
                within(10, lambda: shows(SERVERS[1], "first"), "nothing is lost")
        except BaseException:
            print(cluster.text())
            raise
        finally:
            cluster.stop()


if __name__ == "__main__":
    given = read_arguments(__doc__, "load", "pictures")
    main(given.on, given.load, given.pictures)
