"""Each version takes the place of the one before on two servers, one after the other, while people write.

Usage: deployment.py [--on postgresql] <the server's binary> [<that of the first version>]

Begins with the second version as it writes what the first one reads, or with the first one itself. Needs nats-server
and libnats, or PostgreSQL and libpq.
"""

import json
import os
import signal
import subprocess
import tempfile
import threading
import time
import urllib.error
import urllib.request

from cluster import SERVERS, Cluster, adds, ask, read_arguments, within


class Writer(threading.Thread):
    """Adds cards to a board of its own and changes them, at both servers in turn. What is not acknowledged is repeated."""

    def __init__(self, board):
        super().__init__(daemon=True)
        self.board = board
        self.kind = None
        self.is_done = False
        # By their ids, as they were acknowledged.
        self.cards = {}
        self.repeated = 0

    def run(self):
        number = 0
        while not self.is_done:
            time.sleep(0.03)
            # A board takes a thousand: some are for what only the second version can do.
            if number == (900 if self.kind else 600):
                continue
            number += 1
            body = {"text": f"{self.board}-{number}"}
            if self.kind:
                body |= {"kind": self.kind, "author": "ann"}
            card = self.edit(number, "POST", "cards", body)["card"]
            self.cards[card] = (body["text"], body.get("kind"))
            if number % 3 == 0:
                changed = f"{self.board}-{number} changed"
                self.edit(number, "PATCH", f"cards/{card}", {"text": changed})
                self.cards[card] = (changed, body.get("kind"))

    def edit(self, number, method, path, body):
        attempt = 0
        while True:
            server = SERVERS[(number + attempt) % 2]
            request = urllib.request.Request(
                f"{server}/boards/{self.board}/{path}", json.dumps(body).encode(), method=method,
                headers={"content-type": "application/json", "idempotency-key": f"{self.board}-{number}"})
            try:
                with urllib.request.urlopen(request, timeout=15) as answer:
                    return json.load(answer)
            except urllib.error.HTTPError as error:
                assert error.code == 503, f"{error.code}: {error.read()}"
            except OSError:
                pass
            attempt += 1
            self.repeated += 1
            time.sleep(0.1)


class Servers:
    """Those that run, by their numbers."""

    def __init__(self, cluster):
        self.cluster = cluster
        self.stops = {number: lambda number=number: self.stop_first(cluster, number) for number in (1, 2)}
        self.processes = []
        self.log = tempfile.NamedTemporaryFile()

    def stop_first(self, cluster, number):
        pid = cluster.pid(f"server {number}")
        os.kill(pid, signal.SIGTERM)
        within(30, lambda: has_ended(pid), f"server {number} has ended")

    def replace(self, number, binary, arguments):
        self.stops[number]()
        process = subprocess.Popen(
            [binary, "--port", f"808{number}", "--log", self.cluster.address(), *arguments], stdout=self.log,
            stderr=subprocess.STDOUT)
        self.processes.append(process)

        def stop():
            process.send_signal(signal.SIGTERM)
            assert process.wait(30) == 0, "a server has not ended in order"

        self.stops[number] = stop
        within(60, lambda: ask(f"{SERVERS[number - 1]}/ready") == {}, f"server {number} is {' '.join(arguments)}")

    def kill(self):
        for process in self.processes:
            process.kill()


def has_ended(pid):
    """Of a process that is no child of this one, and whose parent may not have waited for it yet."""
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rsplit(")", 1)[1].split()[0] == "Z"
    except OSError:
        return True


def shown(server, board):
    answer = ask(f"{server}/boards/{board}")
    return None if answer is None else {
        card["id"]: (card["text"], card.get("kind")) for column in answer["columns"] for card in column["cards"]}


def authors(server, board):
    answer = ask(f"{server}/boards/{board}")
    return None if answer is None else {
        card.get("author") for column in answer["columns"] for card in column["cards"]}


def send(method, url):
    request = urllib.request.Request(url, method=method, headers={"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=30) as answer:
        assert answer.status == 204, f"{method} {url}: {answer.status}"


def main(engine, binary, first):
    os.environ["LIVEBOARD_WRITES"] = "1"
    cluster = Cluster(engine)
    servers = Servers(cluster)
    try:
        for server in SERVERS:
            within(600, lambda: ask(f"{server}/ready") == {}, f"{server} is ready")
        steps = [(binary, ["--writes", "2"]), (binary, ["--writes", "3"])]
        if first:
            for number in (1, 2):
                servers.replace(number, first, [])
            steps.insert(0, (binary, ["--writes", "1"]))
        within(60, lambda: ask(f"{SERVERS[0]}/boards", {"title": "0"}) is not None, "a board is made")
        writers = [Writer(ask(f"{SERVERS[0]}/boards", {"title": f"{number}"})["board"]["id"]) for number in range(4)]
        for writer in writers:
            within(10, lambda: shown(SERVERS[1], writer.board) == {}, "the other server has a board")
            writer.start()
        time.sleep(2)
        for program, arguments in steps:
            for number in (1, 2):
                servers.replace(number, program, arguments)
                # Neither of two versions has written what the other one stops at.
                for server in SERVERS:
                    within(10, lambda: adds(server, f"{number} {arguments}"), f"{server} takes edits")
                time.sleep(1)
        for writer in writers:
            writer.kind = {"note": {"colour": "yellow"}}
        time.sleep(2)
        for writer in writers:
            writer.is_done = True
            writer.join(60)
            assert not writer.is_alive(), "a writer waits for its edit"
            for server in SERVERS:
                within(10, lambda: shown(server, writer.board) == writer.cards, f"{len(writer.cards)} cards are there")
            kinds = sum(1 for _, kind in writer.cards.values() if kind)
            assert 0 < kinds < len(writer.cards), "there are no cards of both versions"
        print(f"{sum(len(writer.cards) for writer in writers)} cards,"
              f" {sum(writer.repeated for writer in writers)} requests repeated")
        # What only the newest version writes, at one server, is read at both.
        assert ask(f"{SERVERS[0]}/boards/1/cards?name=eve", {"text": "signed"}) is not None
        for server in SERVERS:
            within(10, lambda: ask(f"{server}/boards/1/history")[-1].get("by") == "eve", f"{server} says who did it")
        # What only the second version does, at one server, holds at both.
        assert authors(SERVERS[1], writers[0].board) == {None, "ann"}
        send("POST", f"{SERVERS[0]}/people/ann/erase")
        for server in SERVERS:
            within(10, lambda: authors(server, writers[0].board) == {None}, f"a person is erased at {server}")
        send("DELETE", f"{SERVERS[1]}/boards/{writers[3].board}")
        for server in SERVERS:
            within(10, lambda: shown(server, writers[3].board) is None, f"a board is deleted at {server}")
            within(10, lambda: shown(server, writers[0].board) == writers[0].cards, "the others are there")
            within(10, lambda: ask(f"{server}/ready") == {}, f"{server} is ready")
        if first:
            # It does not begin with what it cannot read, and says so.
            servers.stops.pop(1)()
            late = subprocess.run(
                [first, "--port", "8081", "--log", cluster.address()], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                text=True, timeout=60)
            assert late.returncode != 0 and "newerSchema" in late.stdout, late.stdout
            print("ok: the first version does not go on where the second one has written")
        for stop in servers.stops.values():
            stop()
    except BaseException:
        print(cluster.text())
        print(open(servers.log.name, errors="replace").read())
        raise
    finally:
        servers.kill()
        cluster.stop()


given = read_arguments(__doc__, "server", "first")
main(given.on, given.server, given.first)
