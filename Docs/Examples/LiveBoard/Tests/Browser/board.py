"""What a person sees: the page in a real browser, against a server of its own.

Usage: board.py <the server's binary> [<a directory for pictures>]
"""

import json
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import urllib.parse
import urllib.request

from selenium import webdriver
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait

PORT = 8097
PAGE = f"http://127.0.0.1:{PORT}/"

# What a text is not to be told from: its colour and what is behind it, which are painted and read as pixels.
CONTRAST = """
    const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
    const paint = colour => {
      canvas.fillStyle = colour;
      canvas.fillRect(0, 0, 1, 1);
      const [red, green, blue] = [...canvas.getImageData(0, 0, 1, 1).data].map(value =>
        value / 255 <= 0.04045 ? value / 255 / 12.92 : ((value / 255 + 0.055) / 1.055) ** 2.4);
      return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
    };
    const bad = [];
    for (const node of document.querySelectorAll("body *")) {
      if (!node.checkVisibility({ opacityProperty: true }) || node.matches(":disabled, #boards, #boards *")) continue;
      const hasText = [...node.childNodes].some(child => child.nodeType === 3 && child.data.trim());
      for (const pseudo of [null, "::before", "::after"]) {
        const style = getComputedStyle(node, pseudo);
        if (pseudo ? ["none", "normal", '""'].includes(style.content) : !hasText) continue;
        const behind = [];
        for (let other = node; other; other = other.parentElement) behind.unshift(getComputedStyle(other));
        if (pseudo) behind.push(style);
        const back = behind.map(other => paint(other.backgroundColor)).at(-1), front = paint(style.color);
        const ratio = (Math.max(back, front) + 0.05) / (Math.min(back, front) + 0.05);
        if (ratio < 4.5) bad.push([node.outerHTML.slice(0, 120), pseudo, ratio]);
      }
    }
    return bad;"""

# What stands in the place of something else, above the columns.
OVERLAPS = """
    const nodes = [...document.querySelectorAll(
      "h1, #switch, header button, #me, #slider input, #state, #step .disc, .what, header time, #undo")].filter(node =>
      node.checkVisibility() && !node.closest("#here"));
    // What a label has in it may reach out of its box.
    const box = node => {
      if (node.id !== "me") return node.getBoundingClientRect();
      const range = document.createRange();
      range.selectNodeContents(node);
      return range.getBoundingClientRect();
    };
    const boxes = nodes.map(box), bad = [];
    for (const [index, one] of boxes.entries()) {
      for (let other = 0; other < index; other++) {
        const two = boxes[other];
        if (nodes[index].contains(nodes[other]) || nodes[other].contains(nodes[index])) continue;
        const isBeside = one.right < two.left + 1 || two.right < one.left + 1;
        if (!isBeside && one.top < two.bottom - 1 && two.top < one.bottom - 1)
          bad.push([nodes[index].outerHTML.slice(0, 90), nodes[other].outerHTML.slice(0, 90)]);
      }
    }
    return bad;"""


def start(binary, data):
    """Returns when the server listens."""
    server = subprocess.Popen(
        [binary, "--port", str(PORT), "--data", data], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    for line in server.stdout:
        if "listening on" in line:
            return server
    raise SystemExit("The server did not start.")


def main(binary, pictures):
    data = tempfile.mkdtemp()
    server = start(binary, data)
    options = webdriver.ChromeOptions()
    for argument in ["--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--window-size=1000,700"]:
        options.add_argument(argument)
    # With a mouse.
    options.add_argument(
        "--blink-settings=primaryHoverType=2,availableHoverTypes=2,primaryPointerType=4,availablePointerTypes=4")
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(shutil.which("chromedriver")))

    def until(condition, what):
        WebDriverWait(driver, 30, 0.02).until(lambda _: condition(), what)
        print("ok:", what)

    def text(name):
        return driver.execute_script("return document.getElementById(arguments[0]).innerText", name)

    def labelled(label):
        return driver.find_element(By.CSS_SELECTOR, f'[aria-label="{label}"]')

    def column(name):
        # At once, as the page may change meanwhile.
        return driver.execute_script(
            "return [...document.querySelectorAll(`[aria-label='${arguments[0]}'] li > span`)].map(n => n.textContent)",
            name)

    def picture(name):
        if pictures:
            driver.save_screenshot(str(pathlib.Path(pictures) / f"{name}.png"))

    def reads_forward(name, part):
        # Whether the letters of a part of the text stand from left to right, whatever is beside it.
        return driver.execute_script("""
            const walker = document.createTreeWalker(document.getElementById(arguments[0]), NodeFilter.SHOW_TEXT);
            for (let node; (node = walker.nextNode());) {
              const start = node.data.indexOf(arguments[1]);
              if (start < 0) continue;
              const left = index => {
                const range = document.createRange();
                range.setStart(node, index);
                range.setEnd(node, index + 1);
                return range.getBoundingClientRect().left;
              };
              return left(start) < left(start + arguments[1].length - 1);
            }
            return null;""", name, part)

    def ready():
        return driver.find_elements(By.CSS_SELECTOR, "section")

    def ask(method, path, body=None, by=None):
        url = PAGE + path + ("?name=" + urllib.parse.quote(by) if by else "")
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(url, data, {"content-type": "application/json"}, method=method)
        with urllib.request.urlopen(request, timeout=15) as answer:
            return json.load(answer)

    def content(selector):
        return driver.execute_script(
            "return [...document.querySelectorAll(arguments[0])].map(node => node.textContent)", selector)

    def marked():
        # The cards that are marked as changed, with who has done that.
        return driver.execute_script(
            "return [...document.querySelectorAll('li.changed')].map(n => [n.firstChild.textContent, n.dataset.by])")

    def media(**features):
        driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {
            "features": [{"name": name.replace("_", "-"), "value": value} for name, value in features.items()]})

    def size(width, height):
        driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
            "width": width, "height": height, "deviceScaleFactor": 1, "mobile": False})

    def way(card, action, end):
        # Where a card is seen from left to right, frame by frame, until it is in the column where it belongs.
        driver.execute_script("""
            const node = document.querySelector(`[data-card="${arguments[0]}"]`);
            window.way = [];
            (function look() {
              const left = Math.round(node.getBoundingClientRect().left);
              if (window.way.at(-1) !== left) window.way.push(left);
              window.looking = requestAnimationFrame(look);
            })();""", card)
        action()
        left = driver.execute_script("""
            const list = document.querySelector(`[aria-label='${arguments[0]}'] ul`);
            return Math.round(list.getBoundingClientRect().left);""", end)
        until(lambda: driver.execute_script("return window.way.at(-1)") == left, f"a card comes to {end}")
        return driver.execute_script("cancelAnimationFrame(window.looking); return window.way")

    try:
        driver.get(PAGE + "?name=ann")
        ann = driver.current_window_handle
        until(ready, "the board is shown")
        driver.switch_to.new_window("window")
        driver.get(PAGE + "?name=bob")
        bob = driver.current_window_handle
        until(ready, "it is shown in a second window")
        for card in ["one", "two", "three"]:
            labelled("a new card in To do").send_keys(card + Keys.ENTER)
            until(lambda: card in column("To do"), f"a card is added: {card}")
            until(lambda: labelled("a new card in To do").get_attribute("value") == "", "and its text is gone")
        driver.switch_to.window(ann)
        until(lambda: column("To do") == ["one", "two", "three"], "the other window has them")
        until(lambda: "ann, bob" in text("here"), "both are here")
        authors = driver.find_elements(By.CSS_SELECTOR, "li > small")
        assert [node.text for node in authors] == ["bob"] * 3, "whose they are is shown"

        # Who is here, as people.
        crowd = driver.find_element(By.ID, "crowd")
        discs = driver.find_elements(By.CSS_SELECTOR, "#crowd .disc")
        assert [disc.get_attribute("data-initials") for disc in discs] == ["AN", "BO"], "they have initials"
        assert len({disc.value_of_css_property("background-color") for disc in discs}) == 2, "and colours"
        assert crowd.accessible_name == "2 people are here", crowd.accessible_name
        names = driver.find_elements(By.CSS_SELECTOR, "#here li bdi")
        assert [name.aria_role for name in driver.find_elements(By.CSS_SELECTOR, "#here ul, #here li")] == [
            "list", "listitem", "listitem"], "a screen reader has a list"
        ActionChains(driver).move_to_element(discs[1]).perform()
        until(lambda: text("tip") == "bob", "a disc that is pointed at has a name")
        assert names[1].size["height"] > 0 and driver.find_element(By.ID, "here").size["width"] <= 1
        driver.find_element(By.ID, "delete").send_keys(Keys.TAB)
        until(lambda: driver.find_element(By.ID, "here").size["width"] > 50, "all have names where they have the focus")
        assert driver.switch_to.active_element == crowd and crowd.get_attribute("aria-expanded") == "true"
        crowd.send_keys(Keys.ESCAPE)
        until(lambda: driver.find_element(By.ID, "here").size["width"] <= 1, "which Escape takes away")

        # Who changed what.
        until(lambda: content("#step .what") == ["bob added “three” to To do"], "the last change is told")
        assert driver.find_element(By.CSS_SELECTOR, "#step time").get_attribute("datetime")
        one = ask("GET", "boards/1")["columns"][0]["cards"][0]["id"]
        ask("PUT", f"boards/1/cards/{one}/kind", {"note": {"colour": "green"}}, "bob")
        until(lambda: marked() == [["one", "bob"]], "what another has changed is marked")
        ask("PUT", f"boards/1/cards/{one}/kind", {"task": {}}, "ann")
        until(lambda: "ann made “one” a task" in content("#step .what"), "what it was is told")
        until(lambda: marked() == [], "for a moment")

        # A card moves, and does not jump.
        driver.execute_cdp_cmd("Animation.enable", {})
        driver.execute_cdp_cmd("Animation.setPlaybackRate", {"playbackRate": 0.1})
        lefts = way(one, lambda: ask("POST", f"boards/1/cards/{one}/move", {"column": "Done"}, "bob"), "Done")
        assert lefts == sorted(lefts) and len(lefts) > 5, f"it jumps: {lefts}"
        halfway = way(one, lambda: (
            ask("POST", f"boards/1/cards/{one}/move", {"column": "Doing"}, "bob"),
            until(lambda: len(driver.execute_script("return window.way")) > 3, "on its way it is moved elsewhere"),
            ask("POST", f"boards/1/cards/{one}/move", {"column": "To do", "position": 0}, "bob")), "To do")
        assert halfway == sorted(halfway, reverse=True) and len(halfway) > 5, f"it jumps: {halfway}"
        driver.execute_cdp_cmd("Animation.setPlaybackRate", {"playbackRate": 1})
        driver.execute_cdp_cmd("Animation.disable", {})
        media(prefers_reduced_motion="reduce")
        still = way(one, lambda: ask("POST", f"boards/1/cards/{one}/move", {"column": "Done"}, "bob"), "Done")
        assert len(still) == 2, f"it moves, though nothing is to: {still}"
        ask("POST", f"boards/1/cards/{one}/move", {"column": "To do", "position": 0}, "bob")
        media()
        until(lambda: column("To do") == ["one", "two", "three"], "and back")

        # By keyboard.
        labelled("move to the next column: one").send_keys(Keys.ENTER)
        until(lambda: column("Doing") == ["one"], "a card is moved by keyboard")
        until(
            lambda: driver.switch_to.active_element.get_attribute("aria-label") == "move to the next column: one",
            "and the focus stays")
        labelled("move up: three").send_keys(Keys.ENTER)
        until(lambda: column("To do") == ["three", "two"], "up, too")
        labelled("edit two").send_keys(Keys.ENTER)
        labelled("text of the card").send_keys(" changed" + Keys.ENTER)
        until(lambda: column("To do") == ["three", "two changed"], "a card is edited by keyboard")
        labelled("delete three").send_keys(Keys.ENTER)
        until(lambda: column("To do") == ["two changed"], "a card is deleted")
        until(lambda: "Deleted" in text("undo"), "which can be undone")
        driver.switch_to.active_element.send_keys(Keys.ENTER)
        until(lambda: column("To do") == ["three", "two changed"], "and it comes back to where it was")
        until(lambda: "redo" in text("undo"), "an undo can be undone")
        driver.switch_to.active_element.send_keys(Keys.ENTER)
        until(lambda: column("To do") == ["two changed"], "it is deleted again")
        driver.switch_to.active_element.send_keys(Keys.CONTROL + "z")
        until(lambda: column("To do") == ["three", "two changed"], "and back by Control-Z")

        # Another kind.
        turn = labelled("task, or note in the next colour: one")
        turn.send_keys(Keys.ENTER)
        until(lambda: driver.find_elements(By.CSS_SELECTOR, "li.yellow"), "a task becomes a note")
        assert column("Doing") == ["one"]
        for colour in ["green", "blue", "task"]:
            turn.send_keys(Keys.ENTER)
            until(lambda: driver.find_elements(By.CSS_SELECTOR, f"section[aria-label=Doing] li.{colour}"), f"and {colour}")

        # By mouse.
        item = labelled("To do").find_elements(By.CSS_SELECTOR, "li")[0]
        ActionChains(driver).drag_and_drop(item, labelled("Done")).perform()
        until(lambda: column("Done") == ["three"], "a card is dragged")

        # As it was.
        slider = driver.find_element(By.ID, "time")
        slider.send_keys(Keys.HOME)
        until(lambda: "version 1 of" in text("state") and column("To do") == [], "the board is shown as it was at first")
        assert column("Done") == [] and driver.find_element(By.ID, "columns").get_attribute("inert") is not None
        assert text("step") == "The board as it was made."
        for _ in range(3):
            slider.send_keys(Keys.RIGHT)
        until(lambda: column("To do") == ["one", "two", "three"], "and later")
        assert content("#step .what") == ["bob added “three” to To do"] and marked() == [["three", "bob"]]
        said = slider.get_attribute("aria-valuetext")
        assert said.startswith("version 4 of ") and "bob added “three” to To do" in said, said
        for what in ["made “one” a green note", "made “one” a task", "moved “one” from To do to Done"]:
            driver.find_element(By.ID, "after").click()
            until(lambda: what in content("#step .what")[0], f"a step forward: {what}")
            assert marked()[0][0] == "one", marked()
        changes = ask("GET", "boards/1/history")
        deletion = next(change for change in changes if "after" not in change)
        for _ in range(deletion["version"] - 7):
            slider.send_keys(Keys.RIGHT)
        until(lambda: content("li.gone") == ["three"], "what a step deletes is shown where it was")
        assert content("#step .what") == ["ann deleted “three” from To do"] and "three" not in column("To do")
        for _ in range(deletion["version"] - 4):
            slider.send_keys(Keys.LEFT)
        until(lambda: column("To do") == ["one", "two", "three"] and "version 4 of" in text("state"), "and back")
        driver.switch_to.window(bob)
        labelled("a new card in Doing").send_keys("meanwhile" + Keys.ENTER)
        until(lambda: "meanwhile" in column("Doing"), "the other window goes on")
        driver.switch_to.window(ann)
        assert column("To do") == ["one", "two", "three"], "what was is not disturbed"
        driver.find_element(By.ID, "now").click()
        until(lambda: "meanwhile" in column("Doing") and column("Done") == ["three"], "and back to now")
        labelled("delete meanwhile").send_keys(Keys.ENTER)
        until(lambda: "meanwhile" not in column("Doing"), "where cards can be edited again")

        # What is being typed into a card that goes.
        labelled("edit two changed").send_keys(Keys.ENTER)
        labelled("text of the card").send_keys(" and more")
        slider.send_keys(Keys.HOME)
        until(lambda: "version 1 of" in text("state"), "the card was not there at first")
        driver.find_element(By.ID, "now").click()
        until(lambda: labelled("text of the card").get_attribute("value") == "two changed and more",
              "what was being typed is there again")
        driver.switch_to.window(bob)
        labelled("delete two changed").send_keys(Keys.ENTER)
        until(lambda: "Deleted" in text("undo"), "another deletes the card")
        undone = driver.find_element(By.CSS_SELECTOR, "#undo button")
        driver.switch_to.window(ann)
        until(lambda: labelled("a new card in To do").get_attribute("value") == "two changed and more",
              "and its text can be a new one")
        assert "is deleted" in text("problem")
        labelled("a new card in To do").clear()
        driver.switch_to.window(bob)
        undone.click()
        driver.switch_to.window(ann)
        until(lambda: column("To do") == ["two changed"], "the card is back")
        labelled("edit two changed").send_keys(Keys.ENTER)
        driver.switch_to.window(bob)
        until(lambda: text("undo").startswith("Undone"), "and can be deleted again")
        labelled("delete two changed").send_keys(Keys.ENTER)
        until(lambda: text("undo").startswith("Deleted"), "it is deleted once more")
        undone = driver.find_element(By.CSS_SELECTOR, "#undo button")
        driver.switch_to.window(ann)
        until(lambda: column("To do") == [] and not driver.find_elements(By.CSS_SELECTOR, "li input"),
              "with the editor in which nothing was typed")
        assert labelled("a new card in To do").get_attribute("value") == ""
        driver.switch_to.window(bob)
        undone.click()
        driver.switch_to.window(ann)
        until(lambda: column("To do") == ["two changed"], "and is back")

        # Without the server.
        server.send_signal(signal.SIGKILL)
        server.wait()
        until(lambda: "not connected" in text("state"), "the page says that it is not connected")
        labelled("a new card in Done").send_keys("typed meanwhile" + Keys.ENTER)
        until(lambda: "does not answer" in text("problem"), "and what was not done")
        assert labelled("a new card in Done").get_attribute("value") == "typed meanwhile"
        picture("away")
        server = start(binary, data)
        until(lambda: "version" in text("state"), "it is connected again by itself")
        assert labelled("a new card in Done").get_attribute("value") == "typed meanwhile"
        labelled("a new card in Done").send_keys(Keys.ENTER)
        until(lambda: column("Done") == ["three", "typed meanwhile"], "what was typed is still there, and is saved")
        assert text("problem") == ""

        # Responses that come late, or are lost after the server has saved the edit.
        driver.execute_script("""
            window.through = window.fetch;
            window.held = [];
            window.fetch = async (path, options) => {
              const answer = await window.through(path, options);
              const isLost = options.method !== "GET" && await new Promise(resume => window.held.push(resume));
              return isLost ? new Response("", { status: 503 }) : answer;
            };""")

        def held(count):
            until(lambda: driver.execute_script("return window.held.length") == count, f"{count} responses are late")

        def answer(number, is_lost=False):
            driver.execute_script("window.held[arguments[0]](arguments[1])", number, is_lost)

        labelled("edit two changed").send_keys(Keys.ENTER)
        labelled("text of the card").send_keys("!" + Keys.ENTER)
        held(1)
        labelled("text of the card").send_keys(" and typed")
        answer(0)
        until(lambda: text("undo").startswith("Changed"), "an edit is saved")
        assert labelled("text of the card").get_attribute("value") == "two changed! and typed"
        labelled("text of the card").send_keys(Keys.ESCAPE)
        field = labelled("a new card in To do")
        field.send_keys("first" + Keys.ENTER)
        held(2)
        field.clear()
        field.send_keys("second" + Keys.ENTER)
        held(3)
        answer(1)
        until(lambda: "first" in text("undo"), "a card is added while another one is on its way")
        answer(2, is_lost=True)
        until(lambda: "503" in text("problem"), "a response without a text is an error")
        assert field.get_attribute("value") == "second"
        field.send_keys(Keys.ENTER)
        held(4)
        answer(3)
        until(lambda: field.get_attribute("value") == "", "the other card is added again")
        assert text("problem") == ""
        until(lambda: column("To do") == ["two changed!", "first", "second"], "once")
        field.send_keys("milk" + Keys.ENTER)
        held(5)
        answer(4, is_lost=True)
        until(lambda: "503" in text("problem"), "a card is saved, and its response is lost")
        field.send_keys(Keys.BACKSPACE * len("milk") + "bread" + Keys.ENTER)
        held(6)
        answer(5)
        until(lambda: field.get_attribute("value") == "", "another text is added instead")
        field.send_keys("milk" + Keys.ENTER)
        held(7)
        field.send_keys(Keys.BACKSPACE + "k")
        answer(6)
        until(lambda: text("problem") == "" and "milk" in text("undo"), "the first text is added a second time")
        assert field.get_attribute("value") == "milk", "text that is typed meanwhile stays, even if it is the same"
        until(lambda: column("To do")[3:] == ["milk", "bread", "milk"], "as another card")
        field.send_keys(Keys.BACKSPACE * len("milk"))
        driver.execute_script("window.fetch = window.through")

        # What the server refuses.
        labelled("a new card in Done").send_keys("x" * 1001 + Keys.ENTER)
        until(lambda: "too long" in text("problem"), "a refusal is told")
        assert len(labelled("a new card in Done").get_attribute("value")) == 1001
        labelled("a new card in Done").clear()

        # Other boards.
        driver.execute_script("window.prompt = () => 'Another'")
        driver.find_element(By.ID, "new").click()
        until(lambda: text("title") == "Another", "a board is made")
        until(lambda: "Another" in text("boards") and "First board" in text("boards"), "and listed")

        driver.execute_script("window.confirm = () => true")
        driver.find_element(By.ID, "delete").click()
        until(lambda: "has been deleted" in text("state"), "a board is deleted")
        assert driver.find_element(By.ID, "columns").get_attribute("inert") is not None
        driver.get(PAGE)
        until(lambda: "First board" in text("boards") and "Another" not in text("boards"), "and listed no more")
        assert " cards, version " in text("boards"), text("boards")

        # Many tabs of one person, who has not said who that is.
        driver.get(PAGE)
        tabs = [driver.current_window_handle]
        for _ in range(9):
            driver.switch_to.new_window("tab")
            driver.get(PAGE)
            tabs.append(driver.current_window_handle)
        until(lambda: column("Done") == ["three", "typed meanwhile"], "the tenth tab is alive")
        labelled("a new card in Doing").send_keys("from the tenth" + Keys.ENTER)
        for tab in tabs:
            driver.switch_to.window(tab)
            until(lambda: "from the tenth" in column("Doing"), "and so are the others")
        driver.switch_to.window(tabs[0])
        driver.close()
        driver.switch_to.window(tabs[1])
        labelled("a new card in Doing").send_keys("once more" + Keys.ENTER)
        driver.switch_to.window(tabs[2])
        until(lambda: "once more" in column("Doing"), "also when the tab with the stream is closed")

        # What a text says about the direction of writing: override, and an end of what isolates it.
        turning = "\u2069\u202e"
        driver.get(PAGE + "?name=zoe")
        zoe = driver.current_window_handle
        driver.switch_to.new_window("window")
        driver.get(PAGE + "?" + urllib.parse.urlencode({"name": "!" + turning + "mallory"}))
        until(ready, "somebody comes whose name turns what follows round")
        labelled("a new card in Done").send_keys(turning + "turned" + Keys.ENTER)
        until(lambda: "turned" in text("undo"), "and adds a card that does, too")
        assert reads_forward("undo", "”."), "what follows the card's text is turned round"
        driver.switch_to.window(zoe)
        until(lambda: "mallory" in text("here") and "zoe" in text("here"), "another person sees them")
        assert reads_forward("here", "zoe") and reads_forward("here", "here"), "the other names are turned round"

        # A slow connection.
        driver.execute_cdp_cmd("Network.enable", {})
        driver.execute_cdp_cmd("Network.setBlockedURLs", {"urls": ["*/events*"]})
        driver.get(PAGE + "?name=zoe")
        assert len(driver.find_elements(By.CSS_SELECTOR, ".skeleton i")) == 6 and not ready()
        until(lambda: "not connected" in text("state"), "where a board is to be, something stands for it")
        driver.execute_cdp_cmd("Network.setBlockedURLs", {"urls": []})
        until(ready, "until it comes")
        assert not driver.find_elements(By.CSS_SELECTOR, ".skeleton")
        driver.execute_cdp_cmd("Network.disable", {})

        # A board as a team has it.
        people = ["Ada Lovelace", "Grace Hopper", "Linus", "Mary Shaw", "Edsger Dijkstra"]
        team = ask("POST", "boards", {"title": "Autumn release"})["board"]["id"]
        ids = {}
        for words, name, by, kind in [
                ("Write the release notes", "To do", 3, None),
                ("Measure a cold start on two cores", "To do", 2, "yellow"),
                ("Ask the pilot teams what they miss", "To do", 0, None),
                ("Decide on the name of the new endpoint: /boards or /rooms?", "To do", 1, "blue"),
                ("Update the diagrams", "To do", 4, None), ("Move the slider below the title", "Doing", 0, None),
                ("Load test with 10,000 streams", "Doing", 2, "green"),
                ("Translate the error messages, all of them, and have somebody read them who does not know the program",
                 "Doing", 3, None),
                ("Rotate the tokens", "Doing", 1, None), ("Replace the old broker", "Done", 4, "green"),
                ("Fix the flaky test of the sign-up", "Done", 0, None), ("Buy cake", "Done", 2, "yellow")]:
            body = {"text": words, "column": name, "author": people[by]} | (
                {"kind": {"note": {"colour": kind}}} if kind else {})
            ids[words] = ask("POST", f"boards/{team}/cards", body, people[by])["card"]
        cards = f"boards/{team}/cards"
        ask("PATCH", f"{cards}/{ids['Update the diagrams']}", {"text": "Update the diagrams of the log"}, people[1])
        streams = []

        def come(*names):
            for name in names:
                url = f"{PAGE}boards/{team}/events?name={urllib.parse.quote(name)}"
                streams.append(urllib.request.urlopen(url, timeout=60))

        def check(what):
            wide = driver.execute_script("return document.documentElement.scrollWidth - window.innerWidth")
            assert wide <= 0, f"{what}: {wide} pixels are missing"
            for bad in driver.execute_script(CONTRAST) + driver.execute_script(OVERLAPS):
                raise AssertionError(f"{what}: {bad}")

        def look_at(what, **pictures):
            until(lambda: not driver.execute_script("return document.getAnimations().length"), "everything is at rest")
            for width, height in [(1440, 900), (800, 600), (390, 844)]:
                for scheme in ["light", "dark"]:
                    size(width, height)
                    media(prefers_color_scheme=scheme)
                    check(f"{what}, {width} x {height}, {scheme}")
                    for name, shown in pictures.items():
                        if shown == (width, scheme):
                            picture(name.replace("_", "-"))
                boxes = driver.execute_script("""
                    return [...document.querySelectorAll("section")].map(n => n.getBoundingClientRect().toJSON())""")
                if width > 750:
                    assert boxes[2]["right"] - boxes[0]["left"] > 0.9 * width, boxes
                    assert min(box["bottom"] for box in boxes) > height - 24, boxes
                else:
                    assert all(box["width"] > 0.89 * width for box in boxes), boxes
            print(f"ok: {what} in windows of all sizes, light and dark")

        driver.get(f"{PAGE}?board={team}&name={urllib.parse.quote(people[0])}")
        until(lambda: column("To do"), "a team's board is shown")
        come(*people[1:])
        until(lambda: text("here") == "here: " + ", ".join(sorted(people)), "all of them are here")
        until(lambda: content("#step .what") == [
            "Grace Hopper changed “Update the diagrams” to “Update the diagrams of the log”"], "and the last step")
        size(1440, 900)
        ask("POST", f"{cards}/{ids['Rotate the tokens']}/move", {"column": "Done", "position": 1}, people[3])
        until(lambda: marked() == [["Rotate the tokens", "Mary Shaw"]], "a card is moved")
        assert content("#step .what") == ["Mary Shaw moved “Rotate the tokens” from Doing to Done"]
        look_at("12 cards and 5 people", board=(1440, "light"), board_dark=(1440, "dark"), narrow_dark=(390, "dark"))
        size(1440, 900)
        driver.find_element(By.ID, "before").click()
        until(lambda: marked() == [["Update the diagrams of the log", "Grace Hopper"]], "a step is marked")
        look_at("the past", past=(1440, "light"))
        driver.find_element(By.ID, "now").click()
        for number in range(188):
            name = ["To do", "Doing", "Done"][number % 3]
            ask("POST", cards, {"text": f"{number} " + "word " * (number % 17), "column": name}, people[number % 5])
        for words in ["x" * 1000, "אלה המילים של הכרטיס", "\u2069\u202eturned round", "longwordwithoutanyspace" * 9]:
            ask("POST", cards, {"text": words, "column": "To do"}, "דוד כהן")
        come(*(f"guest {number}" for number in range(55)))
        until(lambda: driver.find_element(By.ID, "crowd").accessible_name == "60 people are here", "sixty people")
        until(lambda: sum(len(column(name)) for name in ["To do", "Doing", "Done"]) == 204, "and two hundred cards")
        look_at("204 cards and 60 people", crowded=(800, "light"))
        assert content("#crowd .more") == ["+57"] and text("here").endswith(" and 10 more")
        driver.find_element(By.ID, "crowd").click()
        for width, height in [(1440, 900), (390, 844)]:
            size(width, height)
            check("their names")
            panel = driver.find_element(By.ID, "here").rect
            assert panel["x"] >= 0 and panel["x"] + panel["width"] <= width and panel["height"] < height, panel
        for stream in streams:
            stream.close()
        driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
        media()

        # Narrow, and dark.
        driver.get(PAGE)
        until(ready, "the first board is shown again")
        driver.set_window_size(375, 700)
        driver.execute_cdp_cmd(
            "Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": "dark"}]})
        wide = driver.execute_script("return document.documentElement.scrollWidth - window.innerWidth")
        assert wide <= 0, f"375 pixels are too few by {wide}"
        for bad in driver.execute_script(OVERLAPS):
            raise AssertionError(f"a short title and few people, narrow: {bad}")
        for node in driver.find_elements(By.CSS_SELECTOR, "button, input, select"):
            assert node.accessible_name or not node.is_displayed(), f"no name: {node.get_attribute('outerHTML')}"
        print("ok: everything has a name")
        for entry in driver.get_log("browser"):
            assert "Content Security Policy" not in entry["message"], entry
    finally:
        driver.quit()
        server.terminate()
        status = server.wait(30)
        shutil.rmtree(data)
    assert status == 0, f"the server ended with {status}"


main(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else None)
